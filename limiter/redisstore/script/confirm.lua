#!lua
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
    local n = type(v) == 'string' and #v or 0
    if n >= SUMS_LEAST then
      local _, told, number, mark = struct.unpack('<I4ddI2', v, n - SUMS_HOT + 1)
      local size = (mark - mark % 2) / 2
      if size >= SUMS_LEAST and size <= n and struct.unpack('>I7', v, n - size + 1) == m[i] then
        if number == m[i + 1] then told = m[i + 2] end
        v = v:sub(1, n - SUMS_HOT) .. struct.pack('<I4d', share, told) .. v:sub(n - SUMS_TAIL + 1)
        redis.call('SET', member, v, 'KEEPTTL')
      end
    end
    i = i + 3
  end
end
