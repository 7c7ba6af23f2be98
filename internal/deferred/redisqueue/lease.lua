-- Leases the oldest items that wait: first those that were leased before and are
-- free again, which are older than every item that never was.
-- ARGV[1]   the most items
-- ARGV[2]   for how long, ms
-- ARGV[3…]  buckets to leave out
-- Returns {dropped, ticket, id, bucket, expires, deliveries, body, ticket, …}.

local most, hold = tonumber(ARGV[1]), tonumber(ARGV[2])
local except = {}
for i = 3, #ARGV do except[ARGV[i]] = true end
if redis.call('EXISTS', stream) == 0 then return {0} end
local now = clock()
local out, n, looked = {sweep(now)}, 0, 0

-- offer leases one item, returns it if its bucket is left out, or drops it.
local function offer(ticket, f, before)
  looked = looked + 1
  local body = f and redis.call('HGET', bodies, ticket)
  if not body or expiry(ticket, f) <= now then
    remove(ticket, f)
    if f then out[1] = out[1] + 1 end
  elseif except[f.k] then
    pend(ticket, 0, before)
  else
    pend(ticket, hold, before + 1)
    n = n + 1
    local fields = {ticket, f.i, f.k, string.format('%.0f', expiry(ticket, f)), string.format('%.0f', before + 1), body}
    for _, v in ipairs(fields) do out[#out + 1] = v end
  end
end

local cursor = '0-0'
repeat
  local r = redis.call('XAUTOCLAIM', stream, GROUP, CONSUMER, LONGEST, cursor, 'COUNT', most - n, 'JUSTID')
  cursor = r[1]
  for _, ticket in ipairs(r[2]) do
    local e = redis.call('XRANGE', stream, ticket, ticket)[1]
    offer(ticket, e and fields(e[2]), deliveries(ticket) or 0)
  end
  looked = looked + 1
until cursor == '0-0' or n >= most or looked >= 1000

while n < most and looked < 1000 do
  local r = redis.call('XREADGROUP', 'GROUP', GROUP, CONSUMER, 'COUNT', most - n, 'STREAMS', stream, '>')
  if not r then break end
  for _, e in ipairs(r[1][2]) do offer(e[1], fields(e[2]), 0) end
end
return out
