-- Adds an item, unless it is there already or there are too many.
-- ARGV[1]  the most items
-- ARGV[2]  how long it may wait, ms
-- ARGV[3]  its own id, or ''
-- ARGV[4]  its bucket
-- ARGV[5]  its body
-- Returns {ticket, dropped, note}: '' for a full queue or a put that was withdrawn, how
-- many were too old, and 1 if the index of queues may not have this one.

-- How long a put can be withdrawn, ms: more than MaxWithdraw.
local LIFE = 60000

local now = clock()
local dropped = sweep(now)
local id = ARGV[3]
local mine = redis.call('GET', KEYS[4])
if mine then return {mine, dropped, 1} end
if id ~= '' then
  local known = redis.call('HGET', ids, id)
  if known then
    if redis.call('HEXISTS', bodies, known) == 1 then
      redis.call('HSET', ids, '+' .. known, '')
      redis.call('SET', KEYS[4], known, 'PX', LIFE)
      return {known, dropped, 1}
    end
    redis.call('HDEL', ids, id)
  end
end
local note = redis.call('XLEN', stream) == 0 and 1 or 0
if redis.call('EXISTS', stream) == 0 then
  redis.call('XGROUP', 'CREATE', stream, GROUP, '0', 'MKSTREAM')
elseif redis.call('XLEN', stream) >= tonumber(ARGV[1]) then
  return {'', dropped, 0}
end
local age = tonumber(ARGV[2])
local ticket = redis.call('XADD', stream, '*', 'a', ARGV[2], 'k', ARGV[4], 'i', id)
redis.call('HSET', bodies, ticket, ARGV[5])
if id ~= '' then redis.call('HSET', ids, id, ticket) end
redis.call('SET', KEYS[4], ticket, 'PX', LIFE)
-- The keys of a rule that is gone end by themselves, a day after its youngest
-- item, so that whoever looks until then counts what was dropped.
local life = age + 86400000
for _, key in ipairs({stream, bodies, ids}) do
  if redis.call('PTTL', key) < life then redis.call('PEXPIRE', key, string.format('%.0f', life)) end
end
return {ticket, dropped, note}
