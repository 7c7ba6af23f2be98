-- slotsums.lua: sums of the slots of a key, so that a request reads a bounded part of it. slots.lua uses it.
--
-- The sums begin when a key has more than SHORT slots and one of them weighs more than one unit, and end when no unit
-- above one is left. The side has these fields besides:
--   z         origin: no slot with a lower score weighs more than one unit
--   f         forgotten: slots up to this score do not count any more, even if the window becomes longer
--   s<k>:<i>  sum of (weight - 1) of the slots whose score is at least origin + i * 64^k, and less than
--             origin + (i+1) * 64^k; k is 0 to 6. A sum of 0 has no field.
-- So the units up to any score are the sum of at most 63 fields of each k. Seven of them reach 139 years; a slot is
-- held for at most ten. A take drops only some of the expired slots, and the others wait for the next ones.

local SHORT, PIECE, WIDTH, TOP = 256, 64, 64, 6

-- weights_over returns the sum of (weight - 1) of the ids in got, every second
-- element of a reply.
local function weights_over(s, got)
  local out, fields = {}, {}
  for i = 1, #got, 2 do fields[#fields + 1] = 'w:' .. got[i] end
  for from = 1, #fields, 500 do
    local part = call('HMGET', s.side, unpack(fields, from, least(from + 499, #fields)))
    for i = 1, #part do out[#out + 1] = (tonumber(part[i] or '1') or bad_state()) - 1 end
  end
  return out, fields
end

local sum_until, score_of, forget, drop, begin_sums, save_sums

-- make_sums makes the functions that only keys with sums need.
local function make_sums()
  if sum_until then return end

  local function of(list) return #list > 0 and call('HMGET', list[0], unpack(list)) or {} end

  -- sum_until returns the extra units of the slots up to a score.
  function sum_until(s, score)
    local fields, i, sum = {[0] = s.side}, most(score - s.origin + 1, 0), 0
    for k = 0, TOP do
      for j = i - i % WIDTH, i - 1 do fields[#fields + 1] = 's' .. k .. ':' .. text(j) end
      i = floor(i / WIDTH)
    end
    for _, units in ipairs(of(fields)) do sum = sum + (tonumber(units or '0') or bad_state()) end
    return sum
  end

  -- score_of returns the lowest score up to which the stored slots have that many units.
  function score_of(s, units)
    local function slots_before(score) return call('ZCOUNT', s.key, '-inf', '(' .. text(score)) end
    if slots_before(s.origin) >= units then
      return tonumber(call('ZRANGE', s.key, units - 1, units - 1, 'WITHSCORES')[2])
    end
    local i, extra = 0, 0
    for k = TOP, 0, -1 do
      local fields, before = {[0] = s.side}, {[0] = extra}
      for j = 0, WIDTH - 1 do fields[j + 1] = 's' .. k .. ':' .. text(i * WIDTH + j) end
      for j, sum in ipairs(of(fields)) do before[j] = before[j - 1] + (tonumber(sum or '0') or bad_state()) end
      local low, high = 0, WIDTH - 1
      while low < high do
        local mid = floor((low + high) / 2)
        if slots_before(s.origin + (i * WIDTH + mid + 1) * WIDTH ^ k) + before[mid + 1] >= units then
          high = mid
        else
          low = mid + 1
        end
      end
      i, extra = i * WIDTH + low, before[low]
    end
    return s.origin + i
  end

  -- forget drops some of the expired slots, and the expired one of id. No other expired slot counts any more.
  function forget(s, id)
    s.forgotten, s.drop_ids = s.limit - s.offset, {}
    if s.dead_n == 0 then return end
    local got = call('ZRANGE', s.key, 0, least(PIECE, s.dead_n) - 1, 'WITHSCORES')
    local own = call('ZSCORE', s.key, id)
    if own then got[#got + 1], got[#got + 2] = id, own end
    local over, seen = weights_over(s, got), {}
    for i = 1, #over do
      local name = got[2 * i - 1]
      if not seen[name] then
        seen[name] = true
        s.drop_ids[#s.drop_ids + 1] = name
        s.moves[#s.moves + 1], s.moves[#s.moves + 2] = tonumber(got[2 * i]), -over[i]
        s.n, s.dead_n, s.extra, s.dead_extra = s.n - 1, s.dead_n - 1, s.extra - over[i], s.dead_extra - over[i]
      end
    end
  end

  -- drop removes the slots that forget has found.
  function drop(s)
    local ids = s.drop_ids
    if #ids == 0 then return end
    call('ZREM', s.key, unpack(ids))
    for i = 1, #ids do ids[i] = 'w:' .. ids[i] end
    call('HDEL', s.side, unpack(ids))
  end

  -- save_sums stores the sums that changed.
  function save_sums(s)
    local by, list = {}, s.moves
    for m = 1, #list, 2 do
      local i = list[m] - s.origin
      for k = 0, list[m + 1] ~= 0 and TOP or -1 do
        local field = 's' .. k .. ':' .. text(i)
        by[field] = (by[field] or 0) + list[m + 1]
        i = floor(i / WIDTH)
      end
    end
    for field, n in pairs(by) do
      local sum = n + (n ~= 0 and call('HGET', s.side, field) or 0)
      if n ~= 0 and sum ~= 0 then call('HSET', s.side, field, text(sum)) end
      if n ~= 0 and sum == 0 then call('HDEL', s.side, field) end
    end
    if not s.had_sums then call('HSET', s.side, 'z', text(s.origin)) end
    if s.drop_ids then call('HSET', s.side, 'f', text(s.forgotten)) end
  end

  -- begin_sums makes the sums of the slots that are stored, and of the one to be written.
  function begin_sums(s)
    local got = call('ZRANGE', s.key, 0, s.extra > s.set.w - 1 and -1 or 0, 'WITHSCORES')
    local over = weights_over(s, got)
    s.origin, s.forgotten, s.moves = tonumber(got[2]), -math.huge, {}
    for i = 1, #over do s.moves[2 * i - 1], s.moves[2 * i] = tonumber(got[2 * i]), over[i] end
    s.moves[#s.moves + 1], s.moves[#s.moves + 2] = s.set.at - s.offset, s.set.w - 1
  end
end
