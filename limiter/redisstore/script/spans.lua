-- spans.lua: the kernel of a limit that spans regions: that of its algorithm, and the sums beside the state
-- (sums.lua describes them). code is SPANS, GUARD times how takes are held back (0: not at all, 1: cold open, 2: cold
-- share), and the code of the algorithm.
--
-- A take that fits is held back if the region would then have spent more than its share of what was left when the
-- others last heard of it (limiter.Sums.Held): the answer has the time to wait, remaining is what would pass, and delay
-- is HELD. It is counted as denied in the sums, which are written at once.
-- With how = REFUND or UNDO it gives back no unit that another region spent. With how = RESET it leaves sums
-- alone.

local sub, ceil = string.sub, math.ceil
local inner = (code - SPANS) % GUARD
local mode = (code - SPANS - inner) / GUARD
local kernel = kernels[inner] or make(inner)
if not kernel then return nil end
kernels[inner] = kernel

-- The share until the others have heard of the region.
local cold = FULL_SHARE
if mode == GUARD_SHARE then
  cold = FULL_SHARE / tonumber(ARGV[3])
  cold = cold - cold % 1
end
cold = cold + LEAD

local list, drains, shaped = LIST(inner), DRAINS(inner), SHAPED(inner)

-- held_back decides whether a take is to be held back of which mine exceeds the part, not rounded, of what is left.
-- What others have drained does not count. It returns nil, or what would pass.
local function held_back(share, left, mine, w, capacity)
  local spent = capacity - left
  if mine > spent then mine = spent end
  local part = share * (left + mine) / FULL_SHARE
  if share >= LEAD then part = ceil((share - LEAD) * (left + mine) / FULL_SHARE) else part = part - part % 1 end
  if mine <= part then return nil end
  return part + w > mine and part - (mine - w) or 0
end

return function(v, now, count, window, extra, w, _, key, how, booked, base, id, side)
  local state, s, n, member = v, v, 0, key
  local share, told, number, units, mark, size, kept = 0, nil, nil, nil, nil, nil, nil
  if list then
    member = key .. ':t'
    s = redis.call('GET', member)
  end
  if s then
    n = #s
    if n < SUMS_LEAST then return nil end
    share, told, number, mark, units = unpack_bytes('<I4ddI2d', s, n - SUMS_HOT + 1)
    size = (mark - mark % 2) / 2
    if size > n or size < SUMS_LEAST then return nil end
    if not list then
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
    if w > 0 and (result == 0 or how == CHARGE) then
      -- The number of the window in which the kernel books it.
      local k
      if inner == COUNTER then
        k = (at - at % window) / window
      elseif drains then
        local period = count > 0 and ceil(extra * window / count) or ONE_OFF
        if period > ONE_OFF then period = ONE_OFF elseif period < 1 then period = 1 end
        k = (now - now % period) / period
      elseif inner == FIXED_WINDOW then
        k = (at - extra - (at - extra) % window) / window
      elseif inner == BUCKETS then
        k = (at * extra - at * extra % window) / window
      elseif inner == LOG then
        k = (now - now % window) / window
      else
        k = (how ~= PEEK or reset > 0) and now + reset - window
      end
      if mode > 0 and how ~= CHARGE then
        if share == 0 then share = cold end
        local left, mine, part = how == PEEK and remaining - w or remaining, w, share
        if part >= LEAD then part = part - LEAD end
        if k == number and units > told then mine = mine + units - told end
        if mine * FULL_SHARE > part * (left + mine) then
          local passes = held_back(share, left, mine, w, drains and extra or count)
          if passes then
            kernels[SPANS] = kernels[SPANS] or make(SPANS)
            s = s and sub(s, n - size + 1)
            value, needed, reset, s = kernels[SPANS].held(kernel, inner, state, s, now, count, window, extra, w, key,
              how, member)
            result, delay, remaining = tonumber(ARGV[4]), HELD, passes
          end
        end
      end
      if k == number and mark % 2 == 1 and how ~= PEEK and not delay and units <= MAX - w and (not shaped
        or unpack_bytes('>I7', s, n - size + 22) == window * SHAPES + (inner == BUCKETS and extra or 0)) then
        kept, s = sub(s, n - size + 1, n - 8), pack('<d', units + w)
      elseif delay == HELD or how == PEEK then
        if delay ~= HELD and value and s then s = sub(s, n - size + 1) end
      else
        kernels[SPANS] = kernels[SPANS] or make(SPANS)
        s = kernels[SPANS].counted(s and sub(s, n - size + 1), inner, count, window, extra, k, now, w, member)
      end
    elseif value and s then
      s = sub(s, n - size + 1)
    end
  end
  if needed < SUMS_MARGIN then needed = SUMS_MARGIN end
  if value and not list then
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
