-- slots.lua: concurrency. Mirrors limiter/slots.go.
--
-- The key is a sorted set: member = id of a slot, score = start - offset. Its side is a
-- hash that exists only if a slot weighs more than one unit or the clock has
-- been rebased: "o" = offset, "t" = sum of (weight - 1), "w:<id>" = weight of a
-- slot of more than one. Both expire together; a server that evicts the hash
-- alone makes its slots weigh one unit. Of up to SHORT slots, those that have
-- expired and those that a denial waits for are read one by one if weights
-- differ. Of more, the hash has sums of "w" as well; slotsums.lua describes them.
--
-- State in memory: n slots, extra (the sum in "t"), newest (start), origin and
-- forgotten (of the sums, false without them), and the pending change: drop_n
-- expired slots to drop or drop_ids, gone (an id to remove), set (an id
-- to write with start and weight), moves (changes of sums).

local function load_newest(s, rank)
  local got = call('ZRANGE', s.key, rank, rank, 'WITHSCORES')
  if #got == 0 then return nil end
  local at = tonumber(got[2])
  if at ~= floor(at) or at > MAX or at < -MAX then bad_state() end
  return at + s.offset, got[1]
end

-- open reads the state, or makes an empty one if v is false.
local function open(v, key, side_key, count, window)
  local side = v and call('HMGET', side_key, 'o', 't', 'z', 'f') or {}
  local n = v and call('ZCARD', key) or 0
  -- All fields at once, so that the table need not grow.
  local s = {key = key, side = side_key, count = count, window = window, n = n, extra = 0, offset = 0, newest = 0,
    dead_n = 0, dead_extra = 0, newest_id = false, had_side = false, limit = false, dead_fields = false, asked = false,
    held_at = false, held_w = false, drop_n = 0, drop_fields = false, gone = false, set = false,
    origin = false, forgotten = false, had_sums = false, drop_ids = false, moves = false, orphan = false}
  s.had_side = side[1] or side[2]
  if n == 0 then
    s.orphan = s.had_side
    return s
  end
  if s.had_side then
    s.offset, s.extra = tonumber(side[1]), tonumber(side[2])
    if not s.offset or not s.extra then bad_state() end
    if side[3] then
      s.origin, s.forgotten, s.had_sums, s.moves = tonumber(side[3]), tonumber(side[4] or '-inf'), true, {}
      if not s.origin or not s.forgotten then bad_state() end
      make_sums()
    end
  end
  s.newest, s.newest_id = load_newest(s, -1)
  return s
end

local function at_time(s, now)
  if s.n > 0 and s.newest > now then return s.newest end
  return now
end

-- limit_at returns the start of the newest slot that does not count any more at t.
local function limit_at(s, t)
  local limit = t - s.window
  return s.origin and most(limit, s.forgotten + s.offset) or limit
end

-- expire finds how many slots have expired at t, and their extra units.
local function expire(s, t)
  local limit = limit_at(s, t)
  if s.limit == limit then return end
  s.limit, s.dead_n, s.dead_extra, s.dead_fields = limit, 0, 0, false
  if s.n == 0 then return end
  local oldest = call('ZRANGE', s.key, 0, 0, 'WITHSCORES')
  if tonumber(oldest[2]) + s.offset > limit then return end
  s.dead_n = call('ZCOUNT', s.key, '-inf', text(limit - s.offset))
  if s.origin then
    s.dead_extra = sum_until(s, limit - s.offset)
  elseif s.extra > 0 then
    local over, fields = weights_over(s, call('ZRANGE', s.key, 0, s.dead_n - 1, 'WITHSCORES'))
    for i = 1, #over do s.dead_extra = s.dead_extra + over[i] end
    s.dead_fields = fields
  end
end

local function live(s) return s.n + s.extra - s.dead_n - s.dead_extra end

local function seek(s, t, id)
  if s.n == 0 or id == '' then return nil end
  local score = call('ZSCORE', s.key, id)
  if not score then return nil end
  local at = tonumber(score) + s.offset
  if at <= limit_at(s, t) then return nil end
  local w = s.extra > 0 and call('HGET', s.side, 'w:' .. id)
  return at, tonumber(w or '1') or bad_state()
end

-- find returns start and weight of the slot id if it is live at t. A request
-- has one id and changes no slot before it has found it, so it seeks once.
local function find(s, t, id)
  if s.asked ~= t then
    s.held_at, s.held_w = seek(s, t, id)
    s.asked = t
  end
  return s.held_at, s.held_w
end

-- wait is how long until the oldest slots that hold need units have expired.
local function wait(s, now, need)
  if s.extra == 0 then
    local at = load_newest(s, s.dead_n + need - 1)
    return at + s.window - now
  end
  if s.origin then return score_of(s, s.dead_n + s.dead_extra + need) + s.offset + s.window - now end
  local from = s.dead_n
  while true do
    local got = call('ZRANGE', s.key, from, from + 99, 'WITHSCORES')
    local over = weights_over(s, got)
    for i = 1, #over do
      need = need - 1 - over[i]
      if need <= 0 then return tonumber(got[2 * i]) + s.offset + s.window - now end
    end
    if #over < 100 then return NEVER end
    from = from + 100
  end
end

local function rebase(s, now)
  if s.n == 0 or s.newest - now <= s.window then return false end
  s.offset, s.newest = s.offset + now - s.newest, now
  return true
end

-- fits returns 0 if w fits or id is held already, else the wait.
local function fits(s, now, w, id)
  local t = at_time(s, now)
  expire(s, t)
  if w > 0 and find(s, t, id) then return 0 end
  if w > s.count then return NEVER end
  local need = live(s) + w - s.count
  if need <= 0 then return 0 end
  return wait(s, now, need)
end

-- move_sum notes a change of the extra units of slots that began at a time.
local function move_sum(s, at, by)
  if s.moves and by ~= 0 then
    s.moves[#s.moves + 1] = at - s.offset
    s.moves[#s.moves + 1] = by
  end
end

local function put(s, id, at, w)
  s.set = {id = id, at = at, w = w}
  s.newest, s.newest_id = at, id
end

-- spend returns the start of the slot, and true if it was held before.
local function spend(s, now, w, id)
  local t = at_time(s, now)
  expire(s, t)
  local held = find(s, t, id)
  if held then return held, true end
  if s.origin and s.extra > 0 then
    forget(s, id)
  else
    s.origin, s.forgotten, s.moves = false, false, false
    s.drop_n, s.drop_fields = s.dead_n, s.dead_fields
    s.n, s.extra = s.n - s.dead_n, s.extra - s.dead_extra
    s.dead_n, s.dead_extra = 0, 0
  end
  s.n, s.extra = s.n + 1, s.extra + w - 1
  if s.n == 1 and not s.origin then s.offset = 0 end
  put(s, id, t, w)
  move_sum(s, t, w - 1)
  return t, false
end

-- oldest returns the id of the live slot that began first. Redis sorts those of one
-- millisecond by their id.
local function oldest(s, t)
  expire(s, t)
  if s.n == s.dead_n then return '' end
  return call('ZRANGE', s.key, s.dead_n, s.dead_n)[1]
end

-- reslot removes the slot of id, or the oldest one if id is ''.
local function reslot(s, now, id)
  local t = at_time(s, now)
  if id == '' then id = oldest(s, t) end
  local at, w = find(s, t, id)
  if not at then return 0, false end
  s.n, s.extra, s.gone, s.limit = s.n - 1, s.extra - w + 1, id, false
  move_sum(s, at, 1 - w)
  if s.newest_id == id and s.n > 0 then s.newest, s.newest_id = load_newest(s, -2) end
  if s.origin and s.newest <= s.forgotten + s.offset then s.n = 0 end
  return w, true
end

local function renew(s, now, id)
  local t = at_time(s, now)
  local at, w = find(s, t, id)
  if not at then return false end
  expire(s, t)
  move_sum(s, at, 1 - w)
  move_sum(s, t, w - 1)
  put(s, id, t, w)
  return true
end

local function figures(s, now)
  expire(s, at_time(s, now))
  if s.n == s.dead_n then return s.count, 0 end
  return s.count - live(s), s.newest + s.window - now
end

local function save(s, life)
  if s.n == 0 then
    call('DEL', s.key, s.side)
    return
  end
  if s.orphan then -- a server has evicted the slots alone
    call('DEL', s.side)
    s.had_side = false
  end
  if s.drop_n > 0 then
    call('ZREMRANGEBYRANK', s.key, 0, s.drop_n - 1)
    local f = s.drop_fields or {}
    for from = 1, #f, 500 do call('HDEL', s.side, unpack(f, from, least(from + 499, #f))) end
  end
  if s.gone then
    call('ZREM', s.key, s.gone)
    if s.had_side then call('HDEL', s.side, 'w:' .. s.gone) end
  end
  if s.drop_ids then drop(s) end
  if s.had_sums and not s.origin then call('HDEL', s.side, 'z', 'f') end
  local set = s.set
  if set and not s.held_at and not s.origin and s.extra > 0 and s.n > SHORT then
    make_sums()
    begin_sums(s)
  end
  if set then call('ZADD', s.key, text(set.at - s.offset), set.id) end
  if s.extra == 0 and s.offset == 0 and not s.origin then
    if s.had_side then call('DEL', s.side) end
    s.had_side = false
  else
    call('HSET', s.side, 'o', text(s.offset), 't', text(s.extra))
    if set and set.w > 1 then call('HSET', s.side, 'w:' .. set.id, text(set.w)) end
    if s.origin then save_sums(s) end
    s.had_side = true
  end
  call('PEXPIRE', s.key, life)
  if s.had_side then call('PEXPIRE', s.side, life) end
end

-- v is the number of slots, and "o" and "t" of the side; a reslot or renewal
-- returns in the place of the wait what it ended, or 1 if it renewed.
return function(v, now, count, window, _, w, _, key, how, _, _, id, side)
  local s = open(v, key, side, count, window)
  local changed, result, did, booked_at, held = rebase(s, now), 0, false, nil, false
  if how == RELEASE or how == UNDO then
    result, did = reslot(s, now, id)
  elseif how == RENEW then
    did = renew(s, now, id)
    result = did and 1 or 0
  else
    result = fits(s, now, w, id)
    if w > 0 and result == 0 and how ~= PEEK then
      booked_at, held = spend(s, now, w, id)
      did = true
    end
  end
  local remaining, reset = figures(s, now)
  local value = (changed or did) and function(life) save(s, life) end
  local needed = (s.n > 0 or did) and s.newest + window - now or 0
  return value, needed, result, remaining, reset, nil, booked_at, nil, held
end
