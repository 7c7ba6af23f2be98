-- counter.lua: sliding_window_counter, and the tally of a pool. Mirrors limiter/counter.go.
--
-- State: at = last change, cur = units in at's window, prev = units in the one
-- before; packed (see codec.lua) as at, cur, prev.

return function(v, now, count, window, _, w, code, _, how, booked)
  local cur, prev, t, last, value = 0, 0, now, now, false
  local e = now % window
  if v then
    local at, used, before = decode(v)
    if not at then return nil end
    if at > now then
      if at - now > 2 * window then at, value = now, encode(now, used, before) end
      t = at
      e = t % window
    end
    local ago = t - e - (at - at % window)
    if ago == 0 then
      cur, prev = used, before
    elseif ago == window then
      prev = used
    end
    last = at
  end
  local ends, result = t - e + window - now, 0 -- when t's window ends, from now
  if how == REFUND or how == UNDO then
    -- What was booked in t's window is taken from it, then what was in the one
    -- before; without a time the newest first.
    local ago, older = booked and t - e - (booked - booked % window) or 0, 0
    if ago == 0 then
      result = w < cur and w or cur
      cur = cur - result
    end
    if ago == window or not booked then
      older = w - result < prev and w - result or prev
      prev, result = prev - older, result + older
    end
    if result > 0 then value, last = encode(t, cur, prev), t end
  elseif how == APPLY then
    prev = prev > MAX - w and MAX or prev + w
    value, last = encode(t, cur, prev), t
  else
    local full, level = count * window, prev * (window - e) + cur * window
    if code == TALLY then
      result = 0
    elseif w > count then
      result = NEVER
    elseif level + w * window > full then
      local room = count - w - cur
      if room >= 0 then
        -- In this window, once enough of the previous one has slid out.
        room = room * window
        result = ends - (room - room % prev) / prev
      else
        -- In the next window, where today's count is the previous one.
        room = (count - w) * window
        result = ends + window - (room - room % cur) / cur
      end
    end
    if w > 0 and (result == 0 and how ~= PEEK or how == CHARGE) then
      cur = cur > MAX - w and MAX or cur + w
      if code == TALLY and cur > count then cur = count end
      value, last = encode(t, cur, prev), t
    end
  end
  local level = prev * (window - e) + cur * window
  local room = count * window - (level < MAX and level or MAX)
  local reset = cur > 0 and ends + window or prev > 0 and ends or 0
  room = room < 0 and -math.ceil(-room / window) or (room - room % window) / window
  return value, last - last % window + 2 * window - now, result, room, reset, nil, t
end
