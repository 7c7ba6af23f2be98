#!lua
-- confirm.lua: ends leases of export.lua.
--
-- KEYS     the sorted set of the buckets that are leased
-- ARGV     cmsgpack of a flat array: for each bucket its member of the set, and the instant at which its lease ends.
--          A bucket that was leased anew stays leased.
-- Returns  nothing

local m = cmsgpack.unpack(ARGV[1])
for i = 1, #m, 2 do
  local lease = redis.call('ZSCORE', KEYS[1], m[i])
  if lease and tonumber(lease) == m[i + 1] then redis.call('ZREM', KEYS[1], m[i]) end
end
