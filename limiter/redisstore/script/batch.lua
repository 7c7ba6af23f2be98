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
--              operation (plus KEEPS if two numbers follow the number of asks: the time to keep its record, ms,
--              at least, or less than 0 at most, and its attempt or 0), id, record, number of asks, in a part of a
--              request that spans slots the name it books under or '', and the asks
--          Before a request may stand, for each of its asks that has a former limit: MOVE, the position of the ask's
--          key among the request's, the name of the former bucket, and cmsgpack of the former and the present limit as
--          asks of weight 0. What is spent there is charged to the ask's bucket, at most its capacity, and the former
--          one is deleted; where that fails both stay as they are. It has no answer.
--          An ask is: algorithm (plus LOOKS if it has its say about the weight
--          and spends nothing), count, window (ms), extra (burst, sub-windows, or
--          anchor in ms), weight. SPANS is added to the algorithm if the limit spans
--          regions, and GUARD times how its takes are held back (spans.lua). Behind the
--          ask of an APPLY (its id is the region) or RESTORE come the sums of that region: their stored
--          form (layout.lua), born, reset, shape, taken, given, denied, the number of
--          windows, and for each its number and units; its last of KEYS is what was heard. The record is 0 for
--          none, 1 for one; for a part of a request that spans slots the name of the
--          whole, or '' for none. An UNDO has the key of its name as its last of KEYS.
-- ARGV[2]  where an ask spans regions: the set of the buckets that have changed
-- ARGV[3]  there: the number of regions
-- ARGV[4]  there: the wait of a take that the region's guard holds back, ms
-- ARGV[5]  there: takes list a bucket that holds more of its limit than one part of so many; 0: each take does
-- ARGV[6]  the time (ms) after which none of them is decided, where a limit holds only until then
-- ARGV[7]  where high-water marks cover an ask: the hash of marks, and ARGV[8] which asks; see high.lua
-- Returns  cmsgpack of a flat array: the time of the call (ms), and for each
--          request either
--            0, 1 or 3 (1: a stored answer; 3: one that is committed), time of
--            the decision (ms), and for each ask: allowed (0 or 1), room,
--            retry-after (ms), reset (ms), delay (ms), refunded; in a stored
--            answer the capacity and the rate (the count of a limit that drains,
--            else 0); in a part what it booked: time (ms), units, base (the
--            level before it, in 1/window)
--            or 4 or 5, at the time of the call, and for each ask: retry-after (ms;
--            0: allowed), room, reset (ms); then, if 5, the delay of each ask
--            or 2 and the text of the error: this request changed nothing
--          Behind the last answer the remains of a failed one may follow.
--
-- A kernel (fixed.lua and so on) decides about w units of one limit. It is
--   kernel(v, now, count, window, extra, w, algorithm, key, how, booked, base, id, side)
-- of what is stored (v; false for nothing, true for what a list holds), the time, the limit and the weight;
-- algorithm and key as on the wire. how is nothing or TAKE to spend w if it fits,
-- PEEK to spend nothing, CHARGE to spend regardless, REFUND or UNDO to give back up
-- to w units that were booked at the time booked (nil: what was spent last) over a
-- level of base. It changes nothing in Redis and returns
--   value      what to store; false if nothing changes; nil, and no more, if v is
--              none of ours
--   needed     for how long the state counts, ms; KEEP_LIFE if what is stored lives for as long already
--   result     0 if w fits, else the wait, ms, or NEVER; of REFUND and UNDO what was
--              given back
--   room, reset (ms) and, of a leaky queue only, delay (ms); of the state as it is to be stored.
--              room is what fits, or less than 0 by how much the use is above the limit. Of REFUND
--              and UNDO of a bucket that drains, delay is what was given back, in 1/window
--   booked, base   the time that w is booked at, and the level before it
-- With how = CLOSE, and how = COUNT in a request that was denied, a kernel of fixed windows changes the limit that
-- the bucket keeps; its delay is the limit in force.
-- With how = APPLY the kernels of sliding windows book w in the earlier window of the time booked. Limits that
-- span regions have kernels of their own (spans.lua), which also know how = RESET, and put the bucket into the set
-- of changed ones when they spend or give back, even if then another limit denies.
-- A ban (ban.lua) is the ask behind the one whose denials it counts; its weight is a setting, and it
-- spends nothing. It is asked to count by how = COUNT, which is also the operation of bans alone.
-- Kernels of lists (log.lua, slots.lua) read what is stored themselves, return a
-- function that writes as value, and may raise errors.

local m, keys = cmsgpack.unpack(ARGV[1]), KEYS
local size, now = #m, m[2]
if m[1] == 0 then
  local t = try('TIME')
  now = t[1] * 1000 + (t[2] - t[2] % 1000) / 1000
else
  test_life = 600000
end
if ARGV[6] and now > tonumber(ARGV[6]) then return {err = 'LATE the limits held until ' .. ARGV[6]} end

-- Where the next request and its keys begin (at pos, behind k), and where the
-- answers of those before it end (o).
local out, pos, k, o = {now}, 3, 0, 1

local stored, values, needs, delays = {}, {}, {}, {}
local guard = pcall
local long -- operations.lua's functions, once a request needs them
local high = ARGV[7] and make(HIGH)
kernels[HIGH] = high

while pos <= size do
  local p, first, verb = pos, k, m[pos]
  local failed, ok
  if verb < 0 or verb >= PLAIN then
    -- A plain take reads all, decides all, then writes all, so that an error or a
    -- denial leaves everything as it was. What its kernels cannot decide (a value
    -- that is none of ours) goes the long way, which says why.
    if verb < 0 then
      p, pos = -verb, p + 1
      verb = m[p]
    else
      pos = p + 1 + 5 * (verb - PLAIN)
    end
    local n = verb - PLAIN
    k, p = first + n, p + 1
    local q, to, all, delayed, able = p, o + 1, true, false, PLAIN_WAY
    for i = 1, n do
      local algorithm, key = m[q], keys[first + i]
      local v = true
      if not LIST(algorithm) then
        v = try('GET', key)
        if v and #v == 0 then able = false break end -- an error, or an empty string
      end
      if v or algorithm ~= BAN then
        local kernel = kernels[algorithm]
        if not kernel then
          kernel = make(algorithm)
          if not kernel then able = false break end
          kernels[algorithm] = kernel
        end
        local fine, value, needed, retry, remaining, reset, delay =
          guard(kernel, v, now, m[q + 1], m[q + 2], m[q + 3], m[q + 4], algorithm, key)
        if not fine or value == nil then able = false break end
        stored[i], values[i], needs[i] = v, value, needed
        out[to + 1], out[to + 2], out[to + 3] = retry, remaining, reset
        if retry ~= 0 then all = false end
        if delay then delays[i], delayed = delay, true else delays[i] = 0 end
      else -- the commonest ban: nothing was counted
        stored[i], values[i], needs[i], delays[i] = false, false, 0, 0
        out[to + 1], out[to + 2], out[to + 3] = 0, m[q + 1], 0
      end
      q, to = q + 5, to + 3
    end
    if able then
      if not all then
        -- What would fit spends nothing.
        q, to = p, o + 1
        for i = 1, n do
          local fine, code, _ = true, m[q], nil
          if code == BAN then
            -- The ask before it is denied.
            if i > 1 and out[to + 1] == 0 and out[to - 2] ~= 0 and delays[i - 1] > HELD and m[q - 1] > 0 then
              kernels[BAN] = kernels[BAN] or make(BAN)
              fine, values[i], needs[i], out[to + 1], out[to + 2], out[to + 3], delays[i] =
                guard(kernels[BAN], stored[i], now, m[q + 1], m[q + 2], m[q + 3], m[q + 4], BAN, keys[first + i], COUNT)
              delayed = delayed or delays[i] == 1
            end
          elseif values[i] and not (out[to + 1] ~= 0 and KEEPS_LIMIT(code)) then
            fine, values[i], needs[i], _, out[to + 2], out[to + 3] = guard(kernels[m[q]], stored[i], now, m[q + 1],
              m[q + 2], m[q + 3], m[q + 4], m[q], keys[first + i], PEEK)
          end
          able = able and fine
          q, to = q + 5, to + 3
        end
      end
    end
    if able then
      for i = 1, n do
        local value, life = values[i], lives[needs[i]]
        if value and life and stored[i] ~= true then -- the commonest write needs no call of save
          local reply = try('SET', keys[first + i], value, 'PX', life)
          if reply.err then failed = failed or reply end
        elseif value and needs[i] == KEEP_LIFE then
          local reply = try('SET', keys[first + i], value, 'KEEPTTL')
          if reply.err then failed = failed or reply end
        elseif value or stored[i] then
          local _, reply = guard(save, keys[first + i], stored[i], value, needs[i])
          failed = failed or reply
        end
        if delayed then out[to + i] = delays[i] end
        local a = p + 5 * i - 5
        if high and all and m[a + 4] > 0 and high.covers(first + i) then
          local algorithm = m[a]
          local capacity = DRAINS(algorithm) and m[a + 3] or m[a + 1]
          high.note(first + i, now, capacity - out[o + 3 * i], out[o + 3 * i + 1])
        end
      end
      if not failed then
        out[o + 1] = delayed and ANSWERED_DELAYED or ANSWERED_PLAIN
        o = delayed and to + n or to
      end
    else
      long = long or make(0)
      ok, failed = guard(long.plain, m, p, n, keys, first)
      if ok then ok, failed = guard(long.finish, now, out, o) end
      if ok then o, failed = failed, nil end
    end
  elseif verb == MOVE then
    if try('EXISTS', m[p + 2]) == 1 then
      long = long or make(0)
      guard(long.move, now, m[p + 2], keys[first + m[p + 1]], m[p + 3])
    end
    pos = p + 4
  else
    long = long or make(0)
    pos, k = long.read(m, p, keys, first)
    ok, failed = guard(long.finish, now, out, o)
    if ok then o, failed = failed, nil end
  end
  if failed then
    -- An error ends only its own request.
    out[o + 1], out[o + 2] = REFUSED, type(failed) == 'table' and failed.err or tostring(failed)
    o = o + 2
  end
end
if high then high.flush() end
return cmsgpack.pack(out)
