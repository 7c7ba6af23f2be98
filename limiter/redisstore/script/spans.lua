-- spans.lua: the kernel of a limit that spans regions: that of its algorithm, and the sums beside the state
-- (sums.lua describes them). code is SPANS and the code of the algorithm.
--
-- With how = REFUND or UNDO it gives back no unit that another region spent. With how = RESET it leaves sums
-- alone.

local sub = string.sub
local inner = code - SPANS
local kernel = kernels[inner] or make(inner)
if not kernel then return nil end
kernels[inner] = kernel

return function(v, now, count, window, extra, w, _, key, how, booked, base, id, side)
  local state, s, n, member = v, v, 0, key
  local number, units, mark, size, kept
  if LIST(inner) then
    member = key .. ':t'
    s = redis.call('GET', member)
  end
  if s then
    n = #s
    if n < SUMS_LEAST then return nil end
    number, units, mark = unpack_bytes('<ddI2', s, n - SUMS_HOT + 1)
    size = (mark - mark % 2) / 2
    if size > n or size < SUMS_LEAST then return nil end
    if not LIST(inner) then
      state = size < n and sub(s, 1, n - size)
    end
  end
  local value, needed, result, remaining, reset, delay, at, before
  if how == REFUND or how == UNDO then
    kernels[SPANS] = kernels[SPANS] or make(SPANS)
    value, needed, result, remaining, reset, s = kernels[SPANS].refund(kernel, inner, state, s and sub(s, n - size + 1),
      now, count, window, extra, w, key, how, booked, base, member)
  elseif how == RESET then
    kernels[SPANS] = kernels[SPANS] or make(SPANS)
    value, needed, result, remaining, reset = kernel(false, now, count, window, extra, 0, inner, key, PEEK)
    s = kernels[SPANS].reset(s and sub(s, n - size + 1), now, redis.call('HGETALL', key .. ':h'), member)
    value, needed = '', kernels[SPANS].life(inner, count, window, extra)
  else
    value, needed, result, remaining, reset, delay, at, before =
      kernel(state, now, count, window, extra, w, inner, key, how, booked, base, id, side)
    if value == nil then return nil end
    if w > 0 and (result == 0 and how ~= PEEK or how == CHARGE) then
      -- The number of the window in which the kernel has booked it.
      local k
      if inner == COUNTER then
        k = (at - at % window) / window
      elseif inner == FIXED_WINDOW then
        k = (at - extra - (at - extra) % window) / window
      elseif inner == FIRST_HIT then
        k = now + reset - window
      elseif inner == BUCKETS then
        k = (at * extra - at * extra % window) / window
      elseif inner == LOG then
        k = (now - now % window) / window
      else
        local period = count > 0 and math.ceil(extra * window / count) or ONE_OFF
        if period > ONE_OFF then period = ONE_OFF elseif period < 1 then period = 1 end
        k = (now - now % period) / period
      end
      if k == number and mark % 2 == 1 and units <= MAX - w then
        kept, s = sub(s, n - size + 1, n - SUMS_HOT), pack('<ddI2', k, units + w, mark)
      else
        kernels[SPANS] = kernels[SPANS] or make(SPANS)
        s = kernels[SPANS].counted(s and sub(s, n - size + 1), inner, count, window, extra, k, now, w, member)
      end
    elseif value and s then
      s = sub(s, n - size + 1)
    end
  end
  if needed < SUMS_MARGIN then needed = SUMS_MARGIN end
  if value and not LIST(inner) then
    if kept then value = value .. kept .. s elseif s then value = value .. s end
  elseif value then
    local write, own = value, kept and kept .. s or s
    value = function(life)
      if write == '' then redis.call('DEL', key) else write(life) end
      if own then redis.call('SET', member, own, 'PX', life) end
    end
  end
  return value, needed, result, remaining, reset, delay, at, before
end
