-- export.lua: which buckets that span regions have changed, and their sums.
--
-- KEYS     the set of changed buckets; the sorted set of those that are leased
-- ARGV     the most to return; for how long to lease them, ms
-- Returns  cmsgpack of a flat array: for each bucket its member of the set, its sums (see layout.lua), the instant
--          at which its lease ends (µs), which confirm.lua takes, and what it has heard from other regions: how many,
--          and of each its name and its sums
--
-- A bucket is in the set once, from the first change after it was exported. It leaves the set and is leased here, and
-- the mark in its sums is taken off, so that its next change lists it again. Leases that have ended come first, up to
-- half of what is returned if there are changes: their exporter has not confirmed them.

local t = redis.call('TIME')
local now, most, out = t[1] * 1000000 + t[2], tonumber(ARGV[1]), {}
local ends = now + tonumber(ARGV[2]) * 1000

local ended = math.max(most - redis.call('SCARD', KEYS[1]), math.floor(most / 2))
local members = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', ('%d'):format(now), 'LIMIT', 0, ended)
if #members < most then
  local changed = redis.call('SPOP', KEYS[1], most - #members)
  for i = 1, #changed do members[#members + 1] = changed[i] end
end
for i = 1, #members do
  local member = members[i]
  local v = redis.pcall('GET', member)
  local state, own = nil, nil
  if type(v) == 'string' then state, own = split(v) end
  if not own then
    redis.call('ZREM', KEYS[2], member) -- it has expired: nothing of it counts any more
  else
    local mark = struct.unpack('>I3', own)
    if mark >= SUMS_LISTED then
      own = struct.pack('>I3', mark - SUMS_LISTED + SUMS_UNLISTED) .. own:sub(4)
      redis.call('SET', member, join(state, own), 'KEEPTTL')
    end
    local before, lease = redis.call('ZSCORE', KEYS[2], member), ends
    if before and tonumber(before) >= lease then lease = tonumber(before) + 1 end
    redis.call('ZADD', KEYS[2], ('%d'):format(lease), member)
    local heard = redis.call('HGETALL', (member:sub(-2) == ':t' and member:sub(1, -3) or member) .. ':h')
    local o = #out
    out[o + 1], out[o + 2], out[o + 3], out[o + 4] = member, own, lease, #heard / 2
    for j = 1, #heard do out[o + 4 + j] = heard[j] end
  end
end
return cmsgpack.pack(out)
