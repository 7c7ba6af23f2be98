-- batch.lua: many requests in one call, each atomic in itself, in order.
--
-- KEYS     for each request: the key of each ask, after a concurrency key its
--          companion hash; then the record's key if the request has one
-- ARGV[1]  cmsgpack of a flat array:
--            1 if the next number is the time, 0 to use the server's
--            time, ms since 1970
--            for each request: operation (plus KEEPS if the time to keep its
--            record, ms, follows the number of asks), id, record, number of
--            asks, and for each ask: algorithm (plus LOOKS if it has its say about the weight
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
--          or 2 and the text of the error: this request changed nothing.

-- The tables of asks serve one request after the other; pool[i] is the i-th of
-- each.
local pool = {}

local function ask_of(i, m, pos, key)
  local a = pool[i]
  if not a then
    a = {
      algorithm = 0, kernel = false, count = 0, window = 0, burst = 0, buckets = 0, anchor = 0, weight = 0,
      looks = false, key = '', side = false, allowed = 0, remaining = 0, retry = 0, reset = 0, delay = 0,
      refunded = 0, capacity = 0, state = false, spare = false, changed = false, booked = 0, booked_at = 0,
      base = 0, held = false, -- so that the table need not grow
    }
    pool[i] = a
  end
  local algorithm, looks, extra = m[pos], false, m[pos + 3]
  if algorithm >= LOOKS then algorithm, looks = algorithm - LOOKS, true end
  if a.algorithm ~= algorithm then a.algorithm, a.kernel = algorithm, kernel_of(algorithm) end
  a.count, a.window, a.weight, a.looks, a.key = m[pos + 1], m[pos + 2], m[pos + 4], looks, key
  a.burst, a.buckets, a.anchor = extra, extra, extra
  a.retry, a.delay, a.refunded, a.held = 0, 0, 0, false
  a.changed, a.booked, a.booked_at, a.base = false, 0, 0, 0
  return a
end

local function run(op, id, asks, n, now, record, whole, keep)
  if op <= CHARGE or op == COMMIT then return take(op, id, asks, n, now, record, whole, keep) end
  if op == SETTLE then return settle(asks, n, now, record) end
  if op == UNDO then
    undo(id, asks, n, now, record, whole)
  elseif op == REFUND then
    refund(id, asks, n, now, record)
  elseif op == RESET then
    reset(asks, n, now)
  else
    hold(op, id, asks, n, now)
  end
  return now, 0
end

local m = cmsgpack.unpack(ARGV[1])
local now = m[2]
if m[1] == 0 then
  local t = call('TIME')
  now = t[1] * 1000 + floor(t[2] / 1000)
else
  test_ttl = 600000
end

local out, o, pos, k = {}, 0, 3, 0
while pos <= #m do
  local op, id, whole, n = m[pos], m[pos + 1], m[pos + 2], m[pos + 3]
  local part = type(whole) == 'string'
  local asks, keep = {}, 0
  pos = pos + 4
  if op >= KEEPS then
    op, keep, pos = op - KEEPS, m[pos], pos + 1
  end
  for i = 1, n do
    k = k + 1
    local a = ask_of(i, m, pos, KEYS[k])
    if a.algorithm == CONCURRENCY then
      k = k + 1
      a.side = KEYS[k]
    end
    asks[i], pos = a, pos + 5
    if op == UNDO then
      a.booked_at, a.base = m[pos], m[pos + 1]
      pos = pos + 2
    end
  end
  local record
  if whole ~= 0 and whole ~= '' then
    k = k + 1
    record = KEYS[k]
  end
  local ok, at, replayed = pcall(run, op, id, asks, n, now, record, whole, keep)
  if ok then
    out[o + 1], out[o + 2] = replayed, at
    o = o + 2
    for i = 1, n do
      local a = asks[i]
      out[o + 1], out[o + 2], out[o + 3] = a.allowed, a.remaining, a.retry
      out[o + 4], out[o + 5], out[o + 6] = a.reset, a.delay, a.refunded
      o = o + 6
      if replayed ~= 0 then
        o = o + 1
        out[o] = a.capacity
      end
      if part then
        out[o + 1], out[o + 2], out[o + 3] = a.booked_at, a.held and 0 or a.booked, a.base
        o = o + 3
      end
    end
  else
    out[o + 1], out[o + 2] = 2, type(at) == 'table' and at.err or tostring(at)
    o = o + 2
  end
end
return cmsgpack.pack(out)
