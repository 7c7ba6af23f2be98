-- Drops the oldest items, leased or not, that were added until an instant.
-- ARGV[1]   the instant, ms since the epoch
-- ARGV[2]   the most items
-- Returns how many were dropped.

if redis.call('EXISTS', stream) == 0 then return 0 end
local n = 0
for _, e in ipairs(redis.call('XRANGE', stream, '-', ARGV[1], 'COUNT', ARGV[2])) do
  remove(e[1], fields(e[2]))
  n = n + 1
end
return n
