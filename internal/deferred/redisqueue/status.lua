-- Reads the state of the queue. Returns {dropped, items, age of the oldest in ms, items that were leased more than once
-- among a thousand that were leased, the time in ms}.

local now = clock()
if redis.call('EXISTS', stream) == 0 then return {0, 0, 0, 0, now} end
local dropped = sweep(now)
local e = redis.call('XRANGE', stream, '-', '+', 'COUNT', 1)[1]
local age = 0
if e then age = math.max(now - tonumber(string.match(e[1], '^%d+')), 0) end
local again = 0
for _, p in ipairs(redis.call('XPENDING', stream, GROUP, '-', '+', 1000)) do
  if p[4] > 1 then again = again + 1 end
end
return {dropped, redis.call('XLEN', stream), age, again, now}
