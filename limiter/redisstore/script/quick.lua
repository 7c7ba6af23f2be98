-- quick.lua: takes in one step, for requests that only take and states whose
-- clock is not ahead. What is rare goes the long way (decide.lua), which decides
-- the same.
--
-- quick(v, now, count, window, extra, w, algorithm) decides about w units of a
-- limit whose stored state is v (false: none); extra is the burst, sub-windows or
-- anchor. It returns
--   value      what to store; false if nothing changes; nil, and no more, if the
--              request must go the long way
--   needed     for how long the state counts, ms
--   retry      0 if w fits, else the wait, ms, or NEVER
--   remaining, reset (ms) and, of a leaky queue only, delay (ms); of the state with
--              w in it if w fits

-- Mirrors fixed.lua; a state in any but its commonest form goes the long way.
local function fixed(v, now, count, window, anchor, w, algorithm)
  local first_hit = algorithm == FIRST_HIT
  local used, start, stop = 0, first_hit and now or now - (now - anchor) % window, now
  if v then
    local n, c = #v, byte(v)
    if n <= 6 or n > 19 or c < 48 or c > 57 then return nil end
    local at, units = tonumber(sub(v, 1, n - 6)), tonumber(sub(v, n - 5))
    if not at or not units or at > now then return nil end
    if first_hit then
      stop = at + window
      if now < stop then used, start = units, at end
    else
      stop = at - (at - anchor) % window + window
      if now < stop then used = units end
    end
  end
  local value, retry = false, 0
  if w > count - used then
    retry = w > count and NEVER or start + window - now
  elseif w > 0 then
    used = used + w
    local at = first_hit and start or now
    if used > 999999 or at < 1 or at >= 9200000000000 then return nil end
    value = fmt('%d%06d', at, used)
  end
  local reset = used > 0 and start + window - now or 0
  return value, value and reset or stop - now, retry, used < count and count - used or 0, reset
end

-- Mirrors counter.lua.
local function counter(v, now, count, window, _, w)
  local cur, prev, last, e = 0, 0, now, now % window
  if v then
    local at, used, before = decode(v)
    if at > now then return nil end
    local ago = now - e - (at - at % window)
    if ago == 0 then
      cur, prev = used, before
    elseif ago == window then
      prev = used
    end
    last = at
  end
  local full, level = count * window, prev * (window - e) + cur * window
  local value, retry = false, 0
  if w > count then
    retry = NEVER
  elseif level + w * window > full then
    local room = count - w - cur
    if room >= 0 then
      -- In this window, once enough of the previous one has slid out.
      room = room * window
      retry = window - e - (room - room % prev) / prev
    else
      -- In the next window, where today's count is the previous one.
      room = (count - w) * window
      retry = 2 * window - e - (room - room % cur) / cur
    end
  elseif w > 0 then
    cur, level = cur + w, level + w * window
    value = encode(now, cur, prev)
  end
  local room = level < full and full - level or 0
  local reset = cur > 0 and 2 * window - e or prev > 0 and window - e or 0
  return value, value and reset or last - last % window + 2 * window - now, retry,
    (room - room % window) / window, reset
end

-- Mirrors level.lua and gcra.lua, which differ in what scale a state was written
-- under.
local function bucket(v, now, count, window, burst, w, algorithm)
  local scale = algorithm == GCRA and count or window
  local full, level, needed = burst * window, 0, 0
  if count == 0 then return nil end
  if v then
    local at, used, under = decode(v)
    if at > now or under ~= scale then return nil end
    local drained = (now - at) * count
    if drained < used then level = used - drained end
    if level > full and algorithm == GCRA then return nil end
    needed = at + ceil(used / count) - now
  end
  local value, retry, delay = false, 0
  -- For w up to the burst the difference lies in [-MAX, 0] and level in [0, MAX]:
  -- no bit is lost. A greater w makes it positive.
  local over = level + (w * window - full)
  if over > 0 then
    retry = w > burst and NEVER or ceil(over / count)
    if algorithm == LEAKY_QUEUE then delay = NEVER end
  else
    if algorithm == LEAKY_QUEUE then delay = ceil(level / count) end
    if w > 0 then
      level = level + w * window
      value = encode(now, level, scale)
    end
  end
  local reset, room = ceil(level / count), level < full and full - level or 0
  return value, value and reset or needed, retry, (room - room % window) / window, reset, delay
end

-- By the code of the algorithm.
local quicks = {fixed, false, counter, false, bucket, bucket, bucket, bucket, false, fixed}
