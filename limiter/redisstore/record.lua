-- record.lua: what a named request did, so that it can be repeated or refunded.
-- limiter/record.go states the rules.
--
-- One string (cmsgpack of a flat array): time (ms), its mark (0, REFUNDED if any
-- part has been, COMMITTED if a request that spans slots relies on it), the
-- number of asks, 1 or the name of the whole request of which these asks are a
-- part, then RECORD_FIELDS an ask:
-- key, time and units booked, allowed, remaining, retry-after, reset, delay, and
-- the capacity of the limit as it was then.

local REPLAY_WINDOW, RECORD_TTL_MAX = 60000, 3600000
local RECORD_HEAD, RECORD_FIELDS = 4, 9
local REFUNDED, COMMITTED = 1, 2

local function load_record(key)
  local v = call('GET', key)
  if not v then return nil end
  local ok, r = pcall(cmsgpack.unpack, v)
  if not ok or type(r) ~= 'table' or type(r[1]) ~= 'number' or type(r[3]) ~= 'number'
    or #r ~= RECORD_HEAD + r[3] * RECORD_FIELDS then bad_state() end
  return r
end

-- replays reports whether a take or charge of these asks is answered by r.
local function replays(r, asks, n, now, whole)
  if not r or r[2] == REFUNDED or r[3] ~= n or r[4] ~= whole then return false end
  local age = now - r[1]
  if age < 0 or age > REPLAY_WINDOW then return false end
  for i = 1, n do
    if r[RECORD_HEAD + (i - 1) * RECORD_FIELDS + 1] ~= asks[i].key then return false end
  end
  return true
end

-- made_by reports whether r is the untouched record of just these bookings.
local function made_by(r, asks, n, whole)
  if not r or r[2] ~= 0 or r[3] ~= n or r[4] ~= whole then return false end
  for i = 1, n do
    local at, a = RECORD_HEAD + (i - 1) * RECORD_FIELDS, asks[i]
    if r[at + 1] ~= a.key or (a.weight > 0 and r[at + 2] ~= a.booked_at) then return false end
  end
  return true
end

local function keep_record(key, r) call('SET', key, cmsgpack.pack(r), 'KEEPTTL') end

local function answer_from(r, asks, n)
  for i = 1, n do
    local at, a = RECORD_HEAD + (i - 1) * RECORD_FIELDS, asks[i]
    a.allowed, a.remaining, a.retry, a.reset, a.delay = r[at + 4], r[at + 5], r[at + 6], r[at + 7], r[at + 8]
    a.capacity = r[at + 9]
  end
end

-- save_record stores what was booked for asks at time now.
local function save_record(key, asks, n, now, needed, whole, mark)
  local ttl = least(most(needed, REPLAY_WINDOW), RECORD_TTL_MAX)
  local r = {now, mark, n, whole}
  for i = 1, n do
    local at, a = RECORD_HEAD + (i - 1) * RECORD_FIELDS, asks[i]
    r[at + 1], r[at + 2], r[at + 3] = a.key, a.booked_at, a.booked
    r[at + 4], r[at + 5], r[at + 6], r[at + 7], r[at + 8] = a.allowed, a.remaining, a.retry, a.reset, a.delay
    r[at + 9] = a.kernel.capacity and a.kernel.capacity(a) or a.count
  end
  call('SET', key, cmsgpack.pack(r), 'PX', text(most(ttl, test_ttl)))
end

-- claim returns what r booked at key and marks it refunded.
local function claim(r, key)
  if not r then return 0, 0 end
  for i = 0, r[3] - 1 do
    local at = RECORD_HEAD + i * RECORD_FIELDS
    if r[at + 1] == key and r[at + 3] > 0 then
      local booked_at, w = r[at + 2], r[at + 3]
      r[at + 3], r[2] = 0, REFUNDED
      return booked_at, w
    end
  end
  return 0, 0
end
