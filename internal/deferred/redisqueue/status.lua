-- Reads the state of the queue. Returns {dropped, items, age of the oldest in ms}.

if redis.call('EXISTS', stream) == 0 then return {0, 0, 0} end
local now = clock()
local dropped = sweep(now)
local e = redis.call('XRANGE', stream, '-', '+', 'COUNT', 1)[1]
local age = 0
if e then age = math.max(now - tonumber(string.match(e[1], '^%d+')), 0) end
return {dropped, redis.call('XLEN', stream), age}
