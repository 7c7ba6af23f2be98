-- record.lua: what a named request did, so that it can be repeated or refunded.
-- limiter/record.go states the rules.
--
-- One string (cmsgpack of a flat array): time (ms), its mark (0, REFUNDED if any
-- part has been, COMMITTED if a request that spans slots relies on it, or the attempts
-- that hold it as a text: ' 12 34 '), the
-- number of asks, 1 or the name of the whole request of which these asks are a
-- part, when it was settled or false, then RECORD_FIELDS an ask:
-- key, time and units booked, allowed, room, retry-after, reset, delay, and
-- algorithm, count, window and extra of the limit as it was then. In a settled
-- one SETTLED_FIELDS an ask follow, the answer of the settlement: room,
-- reset, refunded (NEVER for an ask that was not settled) and capacity. Last, if one of
-- the buckets had been reset before, when each was born.

local REPLAY_WINDOW, RECORD_TTL_MAX, RECORD_LIFE_MAX = 60000, 3600000, 86460000
local RECORD_HEAD, RECORD_FIELDS, SETTLED_FIELDS = 5, 12, 4
local REFUNDED, COMMITTED = 1, 2

-- A reset, and a move to the bucket of another algorithm, leaves when it was, in ms, at a key of its own beside the
-- bucket: the bucket of later charges was born then. It grows from one to the next, also if the clock steps back, and
-- lives for as long as a charge from before can count. Charges of a bucket without one, born is 0, are never void. No
-- packed name (names.go) ends with this byte where another one could begin.
local BORN = ':'

-- born is when the bucket at a key was born. While the slot of a cluster moves, that can be at the other server.
local function born(key)
  local at = try('GET', key .. BORN)
  return type(at) == 'string' and tonumber(at) or 0
end

-- begin_anew makes void what the bucket of an ask holds, before anything else is written. In a slot that is leaving
-- this server no key may be added.
local function begin_anew(a, now)
  local life = 2 * a.window
  if DRAINS(a.algorithm) then
    life = most(RECORD_TTL_MAX, a.count > 0 and floor(a.extra * a.window / a.count) or ONE_OFF)
  end
  life = least(most(most(life, call('PTTL', a.key)), REPLAY_WINDOW), RECORD_LIFE_MAX)
  local done = redis.pcall('SET', a.key .. BORN, text(most(now, born(a.key) + 1)), 'PX', text(most(life, test_life)))
  if done.err then error({err = 'TRYAGAIN the slot is on its way to another server'}, 0) end
end

-- births_of is behind which position of r the births of the buckets stand, if they do.
local function births_of(r) return RECORD_HEAD + r[3] * (RECORD_FIELDS + (r[5] and SETTLED_FIELDS or 0)) end

local function load_record(key)
  local v = call('GET', key)
  if not v then return nil end
  local ok, r = pcall(cmsgpack.unpack, v)
  if not ok or type(r) ~= 'table' or type(r[1]) ~= 'number' or type(r[3]) ~= 'number'
    or #r ~= births_of(r) and #r ~= births_of(r) + r[3] then bad_state() end
  return r
end

-- replays reports whether a take or charge of these asks is answered by r: both have
-- the same keys in the same order, bans aside.
local function replays(r, asks, n, now, whole)
  if not r or r[2] == REFUNDED or r[4] ~= whole then return false end
  local age = now - r[1]
  if age < 0 or age > REPLAY_WINDOW then return false end
  local i = 1
  for at = RECORD_HEAD, RECORD_HEAD + (r[3] - 1) * RECORD_FIELDS, RECORD_FIELDS do
    if r[at + 9] ~= BAN then
      while i <= n and asks[i].algorithm == BAN do i = i + 1 end
      if i > n or r[at + 1] ~= asks[i].key then return false end
      i = i + 1
    end
  end
  while i <= n and asks[i].algorithm == BAN do i = i + 1 end
  return i > n
end

-- hold lets an attempt hold r, 0 for good, and reports whether that changes r.
local function hold(r, attempt)
  if type(r[2]) ~= 'string' then return false end
  local word = text(attempt) .. ' '
  if attempt ~= 0 and r[2]:find(' ' .. word, 1, true) then return false end
  local _, others = r[2]:gsub(' ', ' ')
  r[2] = (attempt == 0 or others > ATTEMPTS_MAX) and COMMITTED or r[2] .. word
  return true
end

-- let_go ends the hold of an attempt on r, and reports whether it was the last one.
local function let_go(r, attempt)
  if type(r[2]) ~= 'string' then return false end
  local from, to = r[2]:find(' ' .. text(attempt) .. ' ', 1, true)
  if not from then return false end
  r[2] = r[2]:sub(1, from) .. r[2]:sub(to + 1)
  return r[2] == ' '
end

-- made_by reports whether r is the untouched record of just these bookings, which nobody holds.
local function made_by(r, asks, n, whole)
  if not r or (r[2] ~= 0 and r[2] ~= ' ') or r[3] ~= n or r[4] ~= whole or r[5] then return false end
  for i = 1, n do
    local at, a = RECORD_HEAD + (i - 1) * RECORD_FIELDS, asks[i]
    if r[at + 1] ~= a.key or (a.weight > 0 and r[at + 2] ~= a.booked_at) then return false end
  end
  return true
end

-- capacity_of is the most that a limit ever admits at once.
local function capacity_of(algorithm, count, extra)
  if not DRAINS(algorithm) then return count end
  if INSTANT(algorithm) and count == 0 then return 0 end
  return extra
end

-- rate_of is the count of a limit that drains, 0 of any other.
local function rate_of(algorithm, count) return DRAINS(algorithm) and count or 0 end

-- bucket_code is the code of an algorithm without what a single request makes of it.
local function bucket_code(code)
  if SPANS_REGIONS(code) then return SPANS + code % GUARD end
  if KEEPS_LIMIT(code) then return code == KEPT and FIXED_WINDOW or FIRST_HIT end
  return code
end

-- separable reports whether the bucket of a can still tell the units that r booked
-- for it (its fields begin behind at) from those of others, or whether it has begun anew, or an
-- edit has moved them or changed how fast they drain.
local function separable(r, at, a)
  local algorithm = a.algorithm
  if (r[births_of(r) + (at - RECORD_HEAD) / RECORD_FIELDS + 1] or 0) < born(a.key) then return false end
  if DECAYS_EACH(algorithm) then return true end
  if r[at + 11] ~= a.window then return false end
  if not DRAINS(algorithm) then
    -- A tally shares its bucket with the counter only.
    return (r[at + 9] == bucket_code(algorithm) or algorithm == TALLY or r[at + 9] == TALLY) and r[at + 12] == a.extra
  end
  return r[at + 10] == a.count and (not INSTANT(algorithm) or r[at + 12] == a.extra)
end

-- place returns behind which position the fields of a key begin, or nil.
local function place(r, key)
  for i = 0, r[3] - 1 do
    local at = RECORD_HEAD + i * RECORD_FIELDS
    if r[at + 1] == key then return at, i end
  end
end

local function keep_record(key, r) call('SET', key, cmsgpack.pack(r), 'KEEPTTL') end

local function answer_from(r, asks, n)
  for i = 1, n do
    local a = asks[i]
    local at = place(r, a.key)
    if at then
      a.allowed, a.remaining, a.retry, a.reset, a.delay = r[at + 4], r[at + 5], r[at + 6], r[at + 7], r[at + 8]
      a.capacity = capacity_of(r[at + 9], r[at + 10], r[at + 12])
      a.rate = rate_of(r[at + 9], r[at + 10])
    else -- a ban that was added since
      a.allowed, a.remaining, a.reset, a.capacity, a.rate = 1, a.count, 0, a.count, 0
    end
  end
end

-- append_births appends when the buckets of asks were born. Nothing behind stands for 0.
local function append_births(list, asks, n)
  for i = 1, n do list[#list + 1] = asks[i].born end
end

-- save_record stores what was booked for asks at time now, for keep ms at least, or -keep at most. reborn: one of the
-- buckets was reset before.
local function save_record(key, asks, n, now, needed, whole, mark, keep, reborn)
  local life = most(least(most(needed, REPLAY_WINDOW), RECORD_TTL_MAX), keep)
  if keep < 0 then life = least(life, -keep) end
  local r = {now, mark, n, whole, false}
  for i = 1, n do
    local at, a = RECORD_HEAD + (i - 1) * RECORD_FIELDS, asks[i]
    r[at + 1], r[at + 2], r[at + 3] = a.key, a.booked_at, a.booked
    r[at + 4], r[at + 5], r[at + 6], r[at + 7], r[at + 8] = a.allowed, a.remaining, a.retry, a.reset, a.delay
    r[at + 9] = bucket_code(a.algorithm)
    r[at + 10], r[at + 11], r[at + 12] = KEEPS_LIMIT(a.algorithm) and a.delay or a.count, a.window, a.extra
  end
  if reborn then append_births(r, asks, n) end
  call('SET', key, cmsgpack.pack(r), 'PX', text(most(life, test_life)))
end

-- claim returns what r booked at a's key, 0 if units of others are mixed into
-- it by now, and marks it refunded.
local function claim(r, a)
  local at = r and place(r, a.key)
  if not at or r[at + 3] == 0 then return 0, 0 end
  local w = r[at + 3]
  r[at + 3], r[2] = 0, REFUNDED
  return r[at + 2], separable(r, at, a) and w or 0
end

-- answer_settled gives a the answer of the settlement and returns true, or false
-- if its key was not settled.
local function answer_settled(r, a)
  local at, i = place(r, a.key)
  if not at then return false end
  at = RECORD_HEAD + r[3] * RECORD_FIELDS + i * SETTLED_FIELDS
  if r[at + 3] == NEVER then return false end
  a.remaining, a.reset, a.refunded, a.capacity = r[at + 1], r[at + 2], r[at + 3], r[at + 4]
  return true
end

-- save_settled adds the answer of a settlement at time now. A repeat finds it for
-- REPLAY_WINDOW at least.
local function save_settled(key, r, asks, n, now)
  local behind, births = births_of(r), {}
  for i = 1, r[3] do births[i] = r[behind + i] end
  for i = 1, r[3] * SETTLED_FIELDS do r[behind + i] = NEVER end
  for i = 1, n do
    local a = asks[i]
    local at, place_of = place(r, a.key)
    if at then
      at = behind + place_of * SETTLED_FIELDS
      r[at + 1], r[at + 2], r[at + 3], r[at + 4] = a.remaining, a.reset, a.refunded, a.capacity
    end
  end
  r[5] = now
  for i = 1, #births do r[births_of(r) + i] = births[i] end
  call('SET', key, cmsgpack.pack(r), 'PX', text(most(most(call('PTTL', key), REPLAY_WINDOW), test_life)))
end
