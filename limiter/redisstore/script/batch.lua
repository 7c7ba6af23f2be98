-- batch.lua: many requests in one call, each atomic in itself, in order.
--
-- KEYS     for each request: the key of each ask, after a concurrency key its
--          companion hash; then the record's key if the request has one
-- ARGV[1]  cmsgpack of a flat array:
--            1 if the next number is the time, 0 to use the server's
--            time, ms since 1970
--            for each request either
--              for a plain take (no id, no ask that looks, no concurrency):
--              PLAIN plus the number of asks, and the asks
--            or
--              minus the position in this array of an earlier plain take whose
--              asks have the same limits and weights
--            or
--              operation (plus KEEPS if the time to keep its record, ms, follows
--              the number of asks), id, record, number of asks, in a part of a
--              request that spans slots the name of the attempt or '', and the asks
--          An ask is: algorithm (plus LOOKS if it has its say about the weight
--          and spends nothing), count, window (ms), extra (burst, sub-windows, or
--          anchor in ms), weight. The record is 0 for none, 1 for one; for a part of
--          a request that spans slots the name of the whole, or '' for none. An UNDO
--          has the key of its name as its last of KEYS.
-- Returns  cmsgpack of a flat array: the time of the call (ms), and for each
--          request either
--            0, 1 or 3 (1: a stored answer; 3: one that is committed), time of
--            the decision (ms), and for each ask: allowed (0 or 1), remaining,
--            retry-after (ms), reset (ms), delay (ms), refunded; in a stored
--            answer the capacity and the rate (the count of a limit that drains,
--            else 0); in a part what it booked: time (ms), units, base (the
--            level before it, in 1/window)
--            or 4 or 5, at the time of the call, and for each ask: retry-after (ms;
--            0: allowed), remaining, reset (ms); then, if 5, the delay of each ask
--            or 2 and the text of the error: this request changed nothing
--          Behind the last answer the remains of a failed one may follow.

local m, keys = cmsgpack.unpack(ARGV[1]), KEYS
local now = m[2]
if m[1] == 0 then
  local t = call('TIME')
  now = t[1] * 1000 + (t[2] - t[2] % 1000) / 1000
else
  test_life = 600000
end

-- Where the next request and its keys begin (at pos, behind k), and where the
-- answers of those before the one under way end (o). Reading a request moves pos
-- and k, its complete answer moves o.
local out, pos, k, o = {now}, 3, 0, 1

local olds, values, needs, delays = {}, {}, {}, {}
local life, life_needed

-- quick_take decides the plain take of the n asks at m[p], whose keys come behind
-- first, and reports whether it could. It reads all, decides all, then writes
-- all, so that an error or a denial leaves everything as it was.
local function quick_take(p, n, first)
  local to, all, delayed = o + 1, true, false
  for i = 1, n do
    local algorithm = m[p]
    local quick = quicks[algorithm]
    if not quick then return false end
    local v = call('GET', keys[first + i])
    local value, needed, retry, remaining, reset, delay = quick(v, now, m[p + 1], m[p + 2], m[p + 3], m[p + 4], algorithm)
    if value == nil then return false end
    olds[i], values[i], needs[i] = v, value, needed
    out[to + 1], out[to + 2], out[to + 3] = retry, remaining, reset
    if retry ~= 0 then all = false end
    if delay then delays[i], delayed = delay, true else delays[i] = 0 end
    p, to = p + 5, to + 3
  end
  if not all then
    -- What would fit spends nothing: its figures are those of no weight.
    p, to = p - 5 * n, o + 1
    for i = 1, n do
      if values[i] then
        local _
        values[i], needs[i], _, out[to + 2], out[to + 3] =
          quicks[m[p]](olds[i], now, m[p + 1], m[p + 2], m[p + 3], 0, m[p])
      end
      p, to = p + 5, to + 3
    end
  end
  for i = 1, n do
    local value, needed = values[i], needs[i]
    if needed ~= life_needed then life, life_needed = life_of(needed), needed end
    if value then
      call('SET', keys[first + i], value, 'PX', life)
    elseif olds[i] and needed > 0 and call('PTTL', keys[first + i]) < needed then
      call('PEXPIRE', keys[first + i], life)
    end
    if delayed then out[to + i] = delays[i] end
  end
  out[o + 1] = delayed and 5 or 4
  o = delayed and to + n or to
  return true
end

local long -- serve.lua's functions, once a request needs them

local function run()
  local size = #m
  while pos <= size do
    local p, first, verb = pos, k, m[pos]
    if verb < 0 or verb >= PLAIN then
      if verb < 0 then
        p, pos = -verb, p + 1
        verb = m[p]
      else
        pos = p + 1 + 5 * (verb - PLAIN)
      end
      local n = verb - PLAIN
      k = first + n
      if not quick_take(p + 1, n, first) then
        long = long or make_long()
        long.plain(m, p + 1, n, keys, first)
        o = long.finish(now, out, o)
      end
    else
      long = long or make_long()
      pos, k = long.read(m, p, keys, first)
      o = long.finish(now, out, o)
    end
  end
end

-- An error ends only its own request. One that leaves no request behind is about
-- the call: it would come for ever.
local ended
local ok, err = pcall(run)
while not ok do
  if pos == ended then error(err, 0) end
  ended = pos
  out[o + 1], out[o + 2] = 2, type(err) == 'table' and err.err or tostring(err)
  o = o + 2
  ok, err = pcall(run)
end
return cmsgpack.pack(out)
