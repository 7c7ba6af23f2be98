-- reservations.lua: the list of open reservations, in one of several places that are each in one slot of a cluster.
--
-- KEYS[1]  sorted set: the names of entries, by when they are due (ms)
-- KEYS[2]  hash: the body of each entry
-- KEYS[3]  hash: the units of each entry that is not settled, as JSON by rule
-- KEYS[4]  hash: the name of each group's entry, '' for several
-- KEYS[5]  hash: the units of all entries, by rule
-- KEYS[6]  hash: the version of each entry that was renewed; 0 for all others
-- ARGV[1]  the operation; ARGV[2] the time, ms, or '' for that of the server
-- put      ARGV[3] name, [4] group, [5] ms until it is due, [6] body, [7] units, [8] version; an open entry
--          of a later version stays
-- settle   ARGV[3] name, [4] ms until it is due
-- remove   ARGV[3] name, [4] group, [5] version; an entry of a later version stays
-- due      ARGV[3] most, [4] for how many ms they are claimed; returns names, versions and bodies in turn
-- page     ARGV[3] when the entry is due behind which the page begins, [4] its name or '', [5] most; returns those of
--          the next page, or '' and '' at the end, and then bodies

local due, bodies, held, groups, sums, versions = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local now = tonumber(ARGV[2])
if not now then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end
local function text(n) return ('%.0f'):format(n) end

-- add adds units to the sums, and returns those that it added. A sum that would exceed 64 bits stays as it is.
local function add(units)
  local added = {}
  for rule, n in pairs(cjson.decode(units)) do
    if n > 0 and type(redis.pcall('HINCRBY', sums, rule, text(n))) == 'number' then
      added[#added + 1] = cjson.encode(rule) .. ':' .. text(n) -- cjson would round n
    end
  end
  return '{' .. table.concat(added, ',') .. '}'
end

-- version returns the version of an entry.
local function version(name) return redis.call('HGET', versions, name) or '0' end

local function release(name)
  local units = redis.call('HGET', held, name)
  if units then
    for rule, n in pairs(cjson.decode(units)) do
      if redis.call('HINCRBY', sums, rule, text(-n)) <= 0 then redis.call('HDEL', sums, rule) end
    end
    redis.call('HDEL', held, name)
  end
end

-- remove forgets an entry, and its group. The others of a group of several are then not found by it.
local function remove(name, group)
  release(name)
  redis.call('ZREM', due, name)
  redis.call('HDEL', bodies, name)
  redis.call('HDEL', versions, name)
  local of = redis.call('HGET', groups, group)
  if of == name or of == '' then redis.call('HDEL', groups, group) end
end

local op = ARGV[1]
if op == 'put' then
  local name, group = ARGV[3], ARGV[4]
  if tonumber(version(name)) > tonumber(ARGV[8]) and redis.call('HEXISTS', held, name) == 1 then
    return redis.status_reply('OK')
  end
  local of = redis.call('HGET', groups, group)
  if of and of ~= name and (of == '' or redis.call('HEXISTS', bodies, of) == 1) then
    redis.call('HSET', groups, group, '')
  else
    redis.call('HSET', groups, group, name)
  end
  release(name)
  redis.call('HSET', held, name, add(ARGV[7]))
  redis.call('HSET', bodies, name, ARGV[6])
  if ARGV[8] == '0' then redis.call('HDEL', versions, name) else redis.call('HSET', versions, name, ARGV[8]) end
  redis.call('ZADD', due, text(now + ARGV[5]), name)
elseif op == 'settle' then
  if redis.call('HEXISTS', bodies, ARGV[3]) == 1 then
    release(ARGV[3])
    redis.call('ZADD', due, text(now + ARGV[4]), ARGV[3])
  end
elseif op == 'remove' then
  if tonumber(version(ARGV[3])) <= tonumber(ARGV[5]) then remove(ARGV[3], ARGV[4]) end
elseif op == 'due' then
  local out = {}
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', due, '-inf', text(now), 'LIMIT', 0, ARGV[3])) do
    local body = redis.call('HGET', bodies, name)
    if body and redis.call('HEXISTS', held, name) == 1 then
      redis.call('ZADD', due, text(now + ARGV[4]), name)
      out[#out + 1], out[#out + 2], out[#out + 3] = name, version(name), body
    else
      remove(name, name:match('^[^.]*'))
    end
  end
  return out
elseif op == 'page' then
  local out, most, start = {'', ''}, tonumber(ARGV[5]), 0
  if ARGV[4] ~= '' then
    -- Behind an entry that is gone, those of the same time may come twice.
    local rank = redis.call('ZRANK', due, ARGV[4])
    start = rank and rank + 1 or redis.call('ZCOUNT', due, '-inf', '(' .. ARGV[3])
  end
  local list = redis.call('ZRANGE', due, start, start + most - 1, 'WITHSCORES')
  for i = 1, #list, 2 do
    if redis.call('HEXISTS', held, list[i]) == 1 then out[#out + 1] = redis.call('HGET', bodies, list[i]) end
  end
  if #list == 2 * most then out[1], out[2] = list[#list], list[#list - 1] end
  return out
end
return redis.status_reply('OK')
