-- highwater.lua: returns the high-water marks at KEYS[1] in which something may still count, a flat list of names and
-- levels, and deletes the others.

local t = redis.call('TIME')
local now = tonumber(ARGV[1]) > 0 and tonumber(ARGV[1]) or t[1] * 1000 + (t[2] - t[2] % 1000) / 1000
local all, out = redis.call('HGETALL', KEYS[1]), {}
for i = 1, #all, 2 do
  local level, til, later, ends = all[i + 1]:match('^(%d+):(%d+):(%d+):(%d+)$')
  if not level then
    level = ('%d'):format(MAX)
  elseif tonumber(til) <= now then
    level = tonumber(ends) > now and later
  end
  if level and level ~= '0' then
    out[#out + 1], out[#out + 2] = all[i], level
  else
    redis.call('HDEL', KEYS[1], all[i])
  end
end
return out
