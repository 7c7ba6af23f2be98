-- fixed.lua: fixed_window. Mirrors limiter/fixed.go.
--
-- State: at = last change (first hit: start of the window), used = units. Stored
-- as the decimal integer at*10^6 + used, which Redis keeps without a string; as
-- "at:used" where used has more than six digits. Never read through a double.
-- extra is the anchor, ms.

local sub, fmt = string.sub, string.format

-- read returns time and units of what is not in the common form, or nil.
local function read(v)
  if v:find('^%d%d?%d?%d?%d?%d?$') then return 0, tonumber(v) end
  local at, used = v:match('^(%-?%d+):(%d+)$')
  at, used = tonumber(at), tonumber(used)
  if not at or used > MAX or at > MAX or at < -MAX then return nil end
  return at, used
end

local function write(at, used)
  if used <= 999999 and at > 0 and at < 9200000000000 then return fmt('%d%06d', at, used) end
  if used <= 999999 and at == 0 then return fmt('%d', used) end
  return fmt('%d:%d', at, used)
end

return function(v, now, count, window, anchor, w, code, _, how, booked)
  local first_hit, t, at, held, value = code == FIRST_HIT, now, nil, 0, false
  if v then
    local n, c = #v, byte(v)
    if n > 6 and n <= 19 and c >= 48 and c <= 57 then at, held = tonumber(sub(v, 1, n - 6)), tonumber(sub(v, n - 5)) end
    if not at or not held or at % 1 ~= 0 or held % 1 ~= 0 or held < 0 then
      at, held = read(v)
      if not at then return nil end
    end
    if at - now > window then at, value = now, write(now, held) end
    if at > t then t = at end
  end
  -- The window that t is in, and what has been used of it.
  local used, start, stop = 0, t, nil
  if first_hit then
    if at and t < at + window then used, start = held, at end
    stop = (at or start) + window
  else
    start = t - (t - anchor) % window
    if at and at >= start then used = held end
    stop = at and at - (at - anchor) % window + window or start + window
  end
  local due, result = start + window - now, 0
  if how == REFUND or how == UNDO then
    booked = booked or t
    if booked >= start and booked < start + window and used > 0 and w > 0 then
      result = w < used and w or used
      used = used - result
      value = write(at, used)
      -- An undo also forgets a window that began with what it gives back.
      if how == UNDO and first_hit and used == 0 and at == booked then value = '' end
    end
  else
    if w > count - used then result = w > count and NEVER or due end
    if w > 0 and (result == 0 and how ~= PEEK or how == CHARGE) then
      used = used > MAX - w and MAX or used + w
      at, stop = first_hit and start or t, start + window
      value = write(at, used)
    end
  end
  return value, stop - now, result, count - used, used > 0 and due or 0, nil, t
end
