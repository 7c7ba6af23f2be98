-- confirm.lua: ends leases of export.lua, and sets the guards of the buckets.
--
-- KEYS     the sorted set of the buckets that are leased
-- ARGV     cmsgpack of a flat array: for each bucket its member of the set, the instant at which its lease ends, and
--          the share of its guard, 0 for none; if there is one, what all regions have heard of it: born, and the number
--          and units of its newest window. A bucket that was leased anew stays leased.
-- Returns  nothing

local m, i = cmsgpack.unpack(ARGV[1]), 1
while i <= #m do
  local member, share = m[i], m[i + 2]
  local lease = redis.call('ZSCORE', KEYS[1], member)
  if lease and tonumber(lease) == m[i + 1] then redis.call('ZREM', KEYS[1], member) end
  i = i + 3
  if share > 0 then
    local v = redis.pcall('GET', member)
    local state, s, own = nil, nil, nil
    if type(v) == 'string' then state, s = split(v) end
    if s then own = open(s) end
    if own and own.born == m[i] then
      own.share = share
      if own.w[1] == m[i + 1] then own.told = m[i + 2] end
      redis.call('SET', member, join(state, close(own)), 'KEEPTTL')
    end
    i = i + 3
  end
end
