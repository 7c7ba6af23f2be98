-- fixed.lua: fixed_window. Mirrors limiter/fixed.go.
--
-- State: at = last change (first hit: start of the window), used = units. Stored
-- as the decimal integer at*10^6 + used, which Redis keeps without a string; as
-- "at:used" where used has more than six digits, or as "at:used:kept" if the bucket
-- keeps a limit until its window ends. Never read through a double.
-- extra is the anchor, ms. The codes KEPT and KEPT_FIRST_HIT obey the limit that the
-- bucket keeps; with a negative count, -1 less the count, they also set it. Their
-- delay is the limit in force. Other codes leave what is kept as it is. A take that
-- changes it has as base a text, what was spent before and what was kept, for an undo.

local sub, fmt = string.sub, string.format

-- read returns time and units of what is not in the common form, and the limit that is kept or nil; or nil.
local function read(v)
  if v:find('^%d%d?%d?%d?%d?%d?$') then return 0, tonumber(v) end
  local at, used, kept = v:match('^(%-?%d+):(%d+)$')
  if not at then
    at, used, kept = v:match('^(%-?%d+):(%d+):(%d+)$')
    kept = tonumber(kept)
    if not kept or kept > MAX then return nil end
  end
  at, used = tonumber(at), tonumber(used)
  if not at or used > MAX or at > MAX or at < -MAX then return nil end
  return at, used, kept
end

local function write(at, used, kept)
  if kept then return fmt('%d:%d:%d', at, used, kept) end
  if used <= 999999 and at > 0 and at < 9200000000000 then return fmt('%d%06d', at, used) end
  if used <= 999999 and at == 0 then return fmt('%d', used) end
  return fmt('%d:%d', at, used)
end

return function(v, now, count, window, anchor, w, code, _, how, booked, base)
  local first_hit, t, at, held, value, kept = code == FIRST_HIT or code == KEPT_FIRST_HIT, now, nil, 0, false, nil
  if v then
    local n, c = #v, byte(v)
    if n > 6 and n <= 19 and c >= 48 and c <= 57 then at, held = tonumber(sub(v, 1, n - 6)), tonumber(sub(v, n - 5)) end
    if not at or not held or at % 1 ~= 0 or held % 1 ~= 0 or held < 0 then
      at, held, kept = read(v)
      if not at then return nil end
    end
    if at - now > window then at, value = now, write(now, held, kept) end
    if at > t then t = at end
  end
  -- The window that t is in, and what has been used of it.
  local used, start, stop = 0, t, nil
  if first_hit then
    if at and t < at + window then used, start = held, at else kept = nil end
    stop = (at or start) + window
  else
    start = t - (t - anchor) % window
    if at and at >= start then used = held else kept = nil end
    stop = at and at - (at - anchor) % window + window or start + window
  end
  -- What the bucket keeps, and what the limit was without it.
  local whole, sets, limit, before = count, false, nil, nil
  if KEEPS_LIMIT(code) then
    if count < 0 then whole, sets = -1 - count, true end
    count = kept and kept < whole and kept or whole
    limit = count
  end
  local due, result = start + window - now, 0
  if how == CLOSE then
    at, stop, kept, count, limit = first_hit and start or t, start + window, 0, 0, 0
    value = write(at, used, 0)
  elseif how == REFUND or how == UNDO then
    booked = booked or t
    if booked >= start and booked < start + window and used > 0 and w > 0 then
      result = w < used and w or used
      used = used - result
      -- An undo also restores the limit that was kept, unless others have spent or changed it meanwhile,
      if how == UNDO and type(base) == 'string' and kept == whole then
        local had, was = base:match('^(%d+):(%d*)$')
        if tonumber(had) == used then
          kept = tonumber(was)
          count = kept and kept < whole and kept or whole
          limit = count
        end
      end
      value = write(at, used, kept)
      -- and forgets a window that began with what it gives back.
      if how == UNDO and first_hit and used == 0 and at == booked and not kept then value = '' end
    end
  else
    if w > count - used then result = w > whole and NEVER or due end
    if how == COUNT or result ~= 0 and sets and w > 0 and how ~= PEEK and how ~= CHARGE then
      -- A denied take lowers what is kept only below what is spent.
      if sets and used > whole then
        kept = count
        value = write(at, used, kept)
      end
    elseif w > 0 and (result == 0 and how ~= PEEK or how == CHARGE) then
      if sets and kept ~= count then before = fmt('%d:', used) .. (kept and fmt('%d', kept) or '') end
      used = used > MAX - w and MAX or used + w
      at, stop = first_hit and start or t, start + window
      if sets then kept = count end
      value = write(at, used, kept)
    end
  end
  return value, stop - now, result, count - used, (used > 0 or kept) and due or 0, limit, t, before
end
