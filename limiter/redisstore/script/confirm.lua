-- confirm.lua: ends leases of export.lua, and sets the guards of the buckets.
--
-- KEYS     the sorted set of leased batches
-- ARGV     cmsgpack of a flat array: for each batch its name, how many of its buckets follow, and for each of those its
--          member of the set, and the share of its guard, 0 for none; if there is one, what all regions have heard of
--          it: born, and the number and units of its newest window
-- Returns  nothing

-- guard sets the guard in the value v of a bucket if it is of the same incarnation.
local function guard(member, v, share, born, number, told)
  if not v or #v <= SUMS_HOT then return end
  local head, size, _, newest, untold = struct.unpack('>BI2<I3dd', v)
  local rest = #v - size
  if head ~= HEAD_UNLISTED and head ~= HEAD_LISTED or rest < SUMS_HOT or size < 29 then return end
  local is, _, before = struct.unpack('>I7I7<d', v, rest + 8)
  if is ~= born then return end
  if newest == number and told <= MOST_TOLD then
    redis.call('SETRANGE', member, 3, struct.pack('<I3dd', share, number, untold + before - told))
    redis.call('SETRANGE', member, rest + 21, struct.pack('<d', told))
  else
    redis.call('SETRANGE', member, 3, struct.pack('<I3', share))
  end
end

-- In a slot of a cluster that moves all of it ends by itself (see export.lua).
if KEYS[1]:find('{', 1, true) and type(redis.pcall('EXISTS', KEYS[1] .. ':', KEYS[1] .. '::')) ~= 'number' then
  return
end

local m, i = cmsgpack.unpack(ARGV[1]), 1
while i <= #m do
  local number, members, guarded, at = ('%d'):format(m[i]), {}, {}, {}
  local count = m[i + 1]
  i = i + 2
  for n = 1, count do
    members[n] = m[i]
    if m[i + 1] > 0 then
      guarded[#guarded + 1], at[#at + 1] = m[i], i
      i = i + 3
    end
    i = i + 2
  end
  local batch = KEYS[1] .. ':' .. number
  redis.call('SREM', batch, unpack(members))
  if redis.call('EXISTS', batch) == 0 then redis.call('ZREM', KEYS[1], number) end
  if #guarded > 0 then
    local values = redis.call('MGET', unpack(guarded))
    for n = 1, #guarded do
      guard(guarded[n], values[n], m[at[n] + 1], m[at[n] + 2], m[at[n] + 3], m[at[n] + 4])
    end
  end
end
