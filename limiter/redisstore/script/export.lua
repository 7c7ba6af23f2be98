-- export.lua: which buckets that span regions have changed, and what is stored of them.
--
-- KEYS     the set of changed buckets; the sorted set of leased batches, by the instant (µs) at which their lease ends
-- ARGV     the most to return; for how long to lease them, ms; 1 if nothing is exported without the mark of restore.lua
-- Returns  cmsgpack of a flat array: the name of the batch, 0 for none, which confirm.lua takes, and for each bucket
--          its member of the set, its value (see layout.lua), and what it has heard from other regions: how many, and
--          of each its name and its sums
--
-- A bucket is in the set of changed ones once, from the first change after it was exported. It moves to the set of the
-- batch here, and the mark in its sums is taken off, so that its next change lists it again. Batches whose lease has
-- ended go back first: their exporter has not confirmed them. No value that is none of ours keeps the others back.

local t, most = redis.call('TIME'), tonumber(ARGV[1])
local now = t[1] * 1000000 + t[2]

if KEYS[1]:find('{', 1, true) then
  -- Nothing is exported from a slot of a cluster that moves: some of it is at the other server. Then Redis refuses
  -- commands of several keys of which one is missing.
  local arrived = KEYS[1] .. ':in'
  if type(redis.pcall('EXISTS', arrived, arrived .. ':')) ~= 'number' then
    return redis.error_reply('TRYAGAIN the slot is moving')
  end
  local members = redis.call('SRANDMEMBER', arrived, 1000)
  if #members > 0 then
    redis.call('SADD', KEYS[1], unpack(members))
    redis.call('SREM', arrived, unpack(members))
  end
end

if ARGV[3] == '1' and redis.call('GET', KEYS[1] .. ':kept') ~= 'kept' then
  return redis.error_reply('LOST the data are to be restored')
end

local ended = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', ('%d'):format(now), 'LIMIT', 0, 2)
for i = 1, #ended do
  local batch = KEYS[2] .. ':' .. ended[i]
  local members = redis.pcall('SRANDMEMBER', batch, 1000) -- all that a batch of ours has
  local foreign = members.err and members.err:find('WRONGTYPE', 1, true)
  if members.err and not foreign then return members end
  if #members > 0 then
    redis.call('SADD', KEYS[1], unpack(members))
    redis.call('SREM', batch, unpack(members))
  end
  if foreign or redis.call('EXISTS', batch) == 0 then redis.call('ZREM', KEYS[2], ended[i]) end
end

local members = redis.call('SRANDMEMBER', KEYS[1], most)
if #members == 0 then return cmsgpack.pack({0}) end
local values = redis.call('MGET', unpack(members))
local number, found = now, {}
for i = 1, #members do
  local v = values[i]
  if v and #v > SUMS_HOT then
    local head, size = struct.unpack('>BI2', v)
    if (head == HEAD_UNLISTED or head == HEAD_LISTED) and SUMS_HOT + size <= #v then found[#found + 1] = members[i] end
  end
end
if #found > 0 then
  while redis.call('EXISTS', ('%s:%d'):format(KEYS[2], number)) == 1 do number = number + 1 end
  redis.call('SADD', ('%s:%d'):format(KEYS[2], number), unpack(found))
  redis.call('ZADD', KEYS[2], ('%d'):format(now + ARGV[2] * 1000), ('%d'):format(number))
end
redis.call('SREM', KEYS[1], unpack(members))

local out, o, next = {number}, 1, 1
for i = 1, #members do
  local member, v = members[i], values[i]
  if member == found[next] then
    next = next + 1
    if v:byte() == HEAD_LISTED then redis.call('SETRANGE', member, 0, string.char(HEAD_UNLISTED)) end
    local heard = redis.pcall('HGETALL', (member:sub(-2) == ':t' and member:sub(1, -3) or member) .. ':h')
    if heard.err then heard = {} end
    out[o + 1], out[o + 2], out[o + 3] = member, v, #heard / 2
    o = o + 3
    for j = 1, #heard do out[o + j] = heard[j] end
    o = o + #heard
  end
end
return cmsgpack.pack(out)
