-- serve.lua: one request the long way, from its place in the call to its answer.

-- The tables of asks serve one request after the other; pool[i] is the i-th of
-- each.
local pool = {}

local function ask_of(i, m, pos, key)
  local a = pool[i]
  if not a then
    a = {
      algorithm = 0, kernel = false, count = 0, window = 0, burst = 0, buckets = 0, anchor = 0, weight = 0,
      looks = false, key = '', side = false, allowed = 0, remaining = 0, retry = 0, reset = 0, delay = 0,
      refunded = 0, capacity = 0, rate = 0, state = false, spare = false, changed = false, booked = 0, booked_at = 0,
      base = 0, held = false, -- so that the table need not grow
    }
    pool[i] = a
  end
  local algorithm, looks, extra = m[pos], false, m[pos + 3]
  if algorithm >= LOOKS then algorithm, looks = algorithm - LOOKS, true end
  if a.algorithm ~= algorithm then a.algorithm, a.kernel = algorithm, kernel_of(algorithm) end
  a.count, a.window, a.weight, a.looks, a.key = m[pos + 1], m[pos + 2], m[pos + 4], looks, key
  a.burst, a.buckets, a.anchor = extra, extra, extra
  a.retry, a.delay, a.refunded, a.held, a.side = 0, 0, 0, false, false
  a.changed, a.booked, a.booked_at, a.base = false, 0, 0, 0
  return a
end

local function run(op, id, asks, n, now, record, whole, keep, name)
  if op <= CHARGE or op == COMMIT then return take(op, id, asks, n, now, record, whole, keep, name) end
  if op == SETTLE then return settle(asks, n, now, record) end
  if op == UNDO then
    undo(id, asks, n, now, record, whole, name)
  elseif op == REFUND then
    refund(id, asks, n, now, record)
  elseif op == RESET then
    reset(asks, n, now)
  else
    hold(op, id, asks, n, now)
  end
  return now, 0
end

local function answer(out, o, asks, n, at, replayed, part)
  out[o + 1], out[o + 2] = replayed, at
  o = o + 2
  for i = 1, n do
    local a = asks[i]
    out[o + 1], out[o + 2], out[o + 3] = a.allowed, a.remaining, a.retry
    out[o + 4], out[o + 5], out[o + 6] = a.reset, a.delay, a.refunded
    o = o + 6
    if replayed ~= 0 then
      out[o + 1], out[o + 2] = a.capacity, a.rate
      o = o + 2
    end
    if part then
      out[o + 1], out[o + 2], out[o + 3] = a.booked_at, a.held and 0 or a.booked, a.base
      o = o + 3
    end
  end
  return o
end

local long = {}

-- The request that is under way: what read has found and finish carries out.
local job = {asks = {}, op = TAKE, id = '', n = 0, record = nil, whole = 0, keep = 0, name = false}

-- plain prepares the plain take of the n asks at m[pos]; their keys come behind
-- keys[k].
function long.plain(m, pos, n, keys, k)
  local asks = job.asks
  for i = 1, n do asks[i] = ask_of(i, m, pos + 5 * i - 5, keys[k + i]) end
  job.op, job.id, job.n, job.record, job.whole, job.keep, job.name = TAKE, '', n, nil, 0, 0, false
end

-- read prepares the request at m[pos] and returns where the next one begins, and
-- the last of its keys.
function long.read(m, pos, keys, k)
  local op, whole, n, asks = m[pos], m[pos + 2], m[pos + 3], job.asks
  job.id, job.whole, job.n, job.keep, job.record, job.name = m[pos + 1], whole, n, 0, nil, false
  pos = pos + 4
  if op >= KEEPS then
    op, job.keep, pos = op - KEEPS, m[pos], pos + 1
  end
  local name = ''
  if type(whole) == 'string' then name, pos = m[pos], pos + 1 end
  job.op = op
  for i = 1, n do
    k = k + 1
    local a = ask_of(i, m, pos, keys[k])
    if a.algorithm == CONCURRENCY then
      k = k + 1
      a.side = keys[k]
    end
    asks[i], pos = a, pos + 5
  end
  if whole ~= 0 and whole ~= '' then
    k = k + 1
    job.record = keys[k]
  end
  if name ~= '' then
    job.name = name
    if op == UNDO then
      k = k + 1
      job.name = keys[k]
    end
  end
  return pos, k
end

-- finish decides what was prepared, appends its answer behind out[o] and returns
-- where that ends.
function long.finish(now, out, o)
  local asks, n = job.asks, job.n
  local at, replayed = run(job.op, job.id, asks, n, now, job.record, job.whole, job.keep, job.name)
  return answer(out, o, asks, n, at, replayed, type(job.whole) == 'string')
end

return long
