-- batch.lua: many requests in one call, each atomic in itself, in order.
--
-- KEYS     for each request: the key of each ask, after a concurrency key its
--          companion hash; then the record's key if the request has one
-- ARGV[1]  cmsgpack of a flat array:
--            1 if the next number is the time, 0 to use the server's
--            time, ms since 1970
--            for each request either, for a plain take (no id, no ask that
--            looks, no concurrency): PLAIN plus the number of asks, and the asks;
--            or: minus the position of an earlier plain take in this array, whose
--            asks have the same limits and weights;
--            or: operation (plus KEEPS if the time to keep its
--            record, ms, follows the number of asks), id, record, number of
--            asks, and the asks
--          An ask is: algorithm (plus LOOKS if it has its say about the weight
--            and spends nothing), count, window (ms), extra (burst,
--            sub-windows, or anchor in ms), weight; in an UNDO also the time
--            (ms) and the base of what is given back
--          record is 0 for none, 1 for one; for a part of a request that spans
--          slots the name of the whole, or '' for none
-- Returns  cmsgpack of a flat array; for each request either
--            0, 1 or 3 (1: a stored answer; 3: one that is committed), time of
--            the decision (ms), and for each ask: allowed (0 or 1), remaining,
--            retry-after (ms), reset (ms), delay (ms), refunded; in a stored
--            answer the capacity; in a part what it booked: time (ms), units,
--            base (the level before it, in 1/window)
--          or 4 and for each ask: retry-after (ms; 0: allowed), remaining, reset
--            (ms), delay (ms); the time is that of the call
--          or 2 and the text of the error: this request changed nothing.
--          The first element is the time of the call (ms).

local PLAIN = 32

local m, keys = cmsgpack.unpack(ARGV[1]), KEYS
local now = m[2]
if m[1] == 0 then
  local t = call('TIME')
  now = t[1] * 1000 + (t[2] - t[2] % 1000) / 1000
else
  test_life = 600000
end

-- Where the next request and its keys begin (pos; behind keys[k]), and the end of
-- the answers of those before the one under way. Only whoever reads a request
-- moves pos and k; only its complete answer moves o.
local out, pos, k, o = {now}, 3, 0, 1
local long

-- one decides the plain take of one ask at m[p] and reports whether it could.
-- Reading, deciding, writing: no error can come after a write.
local function keep(key, needed)
  if needed > 0 and call('PTTL', key) < needed then call('PEXPIRE', key, life_of(needed)) end
end

local olds, values, needs = {}, {}, {}
-- several decides the plain take of the n asks at m[p] and reports whether it
-- could: it reads all, decides all, writes all.
local function several(p, n, first, o)
  local all = true
  for i = 1, n do
    local quick = quicks[m[p]]
    if not quick then return false end
    local v = call('GET', keys[first + i])
    local value, needed, retry, remaining, reset, delay = quick(v, now, m[p + 1], m[p + 2], m[p + 3], m[p + 4], m[p])
    if value == nil then return false end
    olds[i], values[i], needs[i], all = v, value, needed, all and retry == 0
    out[o + 1], out[o + 2], out[o + 3], out[o + 4] = retry, remaining, reset, delay
    p, o = p + 5, o + 4
  end
  if not all then
    -- What was admitted spends nothing: its figures are those of no weight.
    p, o = p - 5 * n, o - 4 * n
    for i = 1, n do
      if values[i] then
        local _
        values[i], needs[i], _, out[o + 2], out[o + 3] = quicks[m[p]](olds[i], now, m[p + 1], m[p + 2], m[p + 3], 0, m[p])
      end
      p, o = p + 5, o + 4
    end
  end
  for i = 1, n do
    if values[i] then
      call('SET', keys[first + i], values[i], 'PX', life_of(needs[i]))
    elseif olds[i] then
      keep(keys[first + i], needs[i])
    end
  end
  return true
end

local function loop()
  local size = #m
  while pos <= size do
    local p, first, at = pos, k, o
    local n = m[p]
    if n < 0 then
      p, pos = -n, p + 1
      n = m[p] - PLAIN
      k = first + n
    elseif n >= PLAIN then
      n = n - PLAIN
      pos, k = p + 1 + 5 * n, first + n
    else
      n = 0
    end
    if n == 1 then
      local key, algorithm = keys[k], m[p + 1]
      local quick, v, value, needed, retry, remaining, reset, delay = quicks[algorithm]
      if quick then
        v = call('GET', key)
        value, needed, retry, remaining, reset, delay = quick(v, now, m[p + 2], m[p + 3], m[p + 4], m[p + 5], algorithm)
        if value then
          call('SET', key, value, 'PX', life_of(needed))
        elseif v and value == false then
          keep(key, needed)
        end
      end
      if value ~= nil then
        out[at + 1], out[at + 2], out[at + 3], out[at + 4], out[at + 5] = 4, retry, remaining, reset, delay
        o = at + 5
      else
        n = -1
      end
    elseif n > 1 then
      if several(p + 1, n, first, at + 1) then
        out[at + 1] = 4
        o = at + 1 + 4 * n
      else
        n = -n
      end
    end
    if n <= 0 then
      long = long or make_long()
      if n < 0 then
        long.plain(m, p + 1, -n, keys, first)
      else
        pos, k = long.read(m, p, keys, first)
      end
      o = long.finish(now, out, at)
    end
  end
end

-- An error ends only its own request.
local ok, err = pcall(loop)
while not ok do
  out[o + 1], out[o + 2] = 2, type(err) == 'table' and err.err or tostring(err)
  o = o + 2
  ok, err = pcall(loop)
end
for i = o + 1, #out do out[i] = nil end
return cmsgpack.pack(out)
