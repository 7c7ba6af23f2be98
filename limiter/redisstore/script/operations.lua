-- operations.lua: the long way, for everything but plain takes: requests that look,
-- charge, refund, reset, settle, release or renew, those with a record, and parts of
-- requests that span slots. Mirrors limiter/decide.go.
--
-- An ask is a table: algorithm, count, window, extra, weight, key (and side), what
-- is stored (v), the kernel, what to store (value) and for how long it is needed,
-- and the answer: allowed (0 or 1), remaining (the room of batch.lua), retry, reset, delay, refunded. Every
-- function here reads and decides first, then writes, so that an error leaves
-- everything as it was.

-- The tables of asks serve one request after the other; pool[i] is the i-th of each.
local pool = {}

local function ask_of(i, m, pos, key)
  local a = pool[i]
  if not a then
    a = {
      algorithm = 0, kernel = false, count = 0, window = 0, extra = 0, weight = 0, looks = false, key = '', side = nil,
      v = false, value = false, needed = 0, allowed = 0, remaining = 0, retry = 0, reset = 0, delay = 0, refunded = 0,
      counts = false, capacity = 0, rate = 0, told = 0,
      booked = 0, booked_at = 0, base = 0, held = false, place = 0, born = 0,
    }
    pool[i] = a
  end
  local algorithm = m[pos]
  a.looks, a.counts = algorithm >= LOOKS, algorithm == BAN
  if a.looks then algorithm = algorithm - LOOKS elseif a.counts then a.looks = true end
  if not kernels[algorithm] then kernels[algorithm] = make(algorithm) end
  a.algorithm, a.kernel = algorithm, kernels[algorithm]
  a.count, a.window, a.extra, a.weight, a.key, a.side = m[pos + 1], m[pos + 2], m[pos + 3], m[pos + 4], key, nil
  a.told = a.count
  if a.count < 0 then a.count = -1 - a.count end
  a.retry, a.delay, a.refunded, a.booked, a.booked_at, a.base, a.held, a.born = 0, 0, 0, 0, 0, 0, false, 0
  return a
end

-- load reads what is stored. Kernels of lists read it themselves.
local function load(a) a.v = LIST(a.algorithm) or call('GET', a.key) end

-- decide asks a's kernel about w units. See batch.lua for what it returns.
local function decide(a, now, w, how, booked, base, id)
  local value, needed, result, remaining, reset, delay, booked_at, before, held =
    a.kernel(a.v, now, a.told, a.window, a.extra, w, a.algorithm, a.key, how, booked, base, id, a.side)
  if value == nil then bad_state() end
  a.value, a.needed, a.remaining, a.reset = value, needed, remaining, reset
  if KEEPS_LIMIT(a.algorithm) then a.delay = delay end
  return result, delay, booked_at, before, held
end

-- note raises the high-water mark that covers an ask which has spent something. exceeds: it need not have fitted.
local function note(a, now, exceeds)
  local high = kernels[HIGH]
  if not high or not high.covers(a.place) then return end
  local level = exceeds and a.remaining <= 0 and MAX or capacity_of(a.algorithm, a.count, a.extra) - a.remaining
  high.note(a.place, now, level, a.reset)
end

-- store writes what has changed and keeps the rest alive for as long as it counts.
-- It returns the longest time any of it is needed.
local function store(asks, n)
  local longest = 0
  for i = 1, n do
    local a = asks[i]
    if a.value or a.v then
      longest = most(longest, a.needed)
      local failed = save(a.key, a.v, a.value, a.needed, a.side)
      if failed then error(failed, 0) end
    end
  end
  return longest
end

-- What a part of a request that spans slots has booked is kept for a moment under
-- the name of the attempt, so that it can be undone exactly once and whether or not
-- its answer arrived: cmsgpack of time, units and base an ask and, if one of the buckets
-- had been reset before, when each was born; or '' once nobody may
-- book under that name any more.
-- The empty mark lives twice as long as a name: a take that was lost on its way is
-- sent again by TCP after at most as long as it has been lost already.
local NAME_LIFE, ENDED_LIFE = 30000, 60000

local function name_key(asks, name)
  local key = asks[1].key
  return key:sub(1, key:find('}', 1, true)) .. ':g:' .. name
end

local function given_up() error({err = 'GIVENUP what this request takes has been given back'}, 0) end

-- write_booking writes what has been booked under a name, before anything else is
-- written. In a slot that is leaving this server no key may be added: the request
-- is refused there. The name's key is not among KEYS, or it would be refused where
-- the slot goes to as well.
local function write_booking(asks, n, name, reborn)
  local what, life = {}, 1000
  for i = 1, n do
    local a = asks[i]
    what[3 * i - 2], what[3 * i - 1], what[3 * i] = a.booked_at, a.held and 0 or a.booked, a.base
    if a.value then life = most(life, a.needed) end
  end
  if reborn then append_births(what, asks, n) end
  local done = redis.pcall('SET', name_key(asks, name), cmsgpack.pack(what),
    'NX', 'PX', text(most(least(life, NAME_LIFE), test_life)))
  if not done then given_up() end
  if done.err then error({err = 'TRYAGAIN the slot is on its way to another server'}, 0) end
end

-- take serves take, commit, peek and charge. It returns the time of the answer
-- and ANSWERED, STORED or STORED_COMMITTED. Only parts peek with a record.
local function take(op, id, asks, n, now, record, whole, keep, name, attempt)
  if record then
    local r = load_record(record)
    if replays(r, asks, n, now, whole) then
      -- A part holds what it relies on when it commits or charges, because the request may still be denied or fail.
      local commits = op == COMMIT
      local holds = commits or op == CHARGE or whole == 1
      if holds and name and try('GET', name_key(asks, name)) == '' then given_up() end
      if commits and r[2] == 0 then
        r[2] = COMMITTED
        keep_record(record, r)
      elseif holds and hold(r, attempt) then
        keep_record(record, r)
      end
      answer_from(r, asks, n)
      return r[1], (commits or r[2] == COMMITTED or r[5]) and STORED_COMMITTED or STORED
    end
  end
  local all, spent = true, 0
  for i = 1, n do
    local a = asks[i]
    local delay, booked_at, base
    load(a)
    a.retry, delay, booked_at, base, a.held = decide(a, now, a.weight, a.looks and PEEK or op, nil, nil, id)
    a.allowed, a.delay = a.retry == 0 and 1 or 0, delay or 0
    if a.weight > 0 and not a.looks and op ~= PEEK then
      a.booked, a.booked_at, a.base = a.weight, booked_at, base or 0
    end
    all, spent = all and a.retry == 0, spent + a.booked
  end
  if not all and op ~= CHARGE and op ~= PEEK then
    -- What would fit spends nothing.
    spent = 0
    for i = 1, n do
      local a = asks[i]
      local before = asks[i - 1]
      if a.algorithm == BAN then
        local denied = before and before.retry ~= 0 and before.delay > HELD and before.weight > 0
        if a.counts and a.retry == 0 and denied then
          a.retry, a.delay = decide(a, now, a.weight, COUNT)
          a.allowed = a.retry == 0 and 1 or 0
        end
      elseif a.booked > 0 and a.retry == 0 then
        decide(a, now, a.weight, PEEK, nil, nil, id)
      end
      a.booked, a.booked_at, a.base, a.held = 0, 0, 0, false
    end
  end
  local reborn = false
  for i = 1, n do
    local a = asks[i]
    if a.booked > 0 then
      note(a, now, op == CHARGE)
      if record or name then a.born = born(a.key) end
      reborn = reborn or a.born > 0
    end
  end
  if name and spent > 0 then write_booking(asks, n, name, reborn) end
  local longest = store(asks, n)
  if record and spent > 0 then
    local mark = attempt ~= 0 and ' ' .. text(attempt) .. ' ' or op == COMMIT and COMMITTED or 0
    save_record(record, asks, n, now, longest, whole, mark, keep, reborn)
  end
  return now, ANSWERED
end

local function refund(id, asks, n, now, record, attempt)
  local r = record and load_record(record)
  local before = r and r[2]
  local held = r and attempt ~= 0 and not let_go(r, attempt)
  for i = 1, n do
    local a = asks[i]
    local slot, w, at = HOLDS_SLOTS(a.algorithm), a.weight, nil
    if held then slot, w = false, 0 elseif id ~= '' then at, w = claim(r, a) elseif a.algorithm == BAN then w = 0 end
    a.allowed = 1
    load(a)
    if slot and id ~= '' then
      a.refunded = decide(a, now, 0, RELEASE, nil, nil, id)
    elseif w > 0 and not slot then
      a.refunded = decide(a, now, w, REFUND, at)
    else
      decide(a, now, 0, PEEK, nil, nil, '')
    end
  end
  store(asks, n)
  if r and (r[2] ~= before or before == REFUNDED) then keep_record(record, r) end
end

-- settle makes what a record says weigh what the asks say, or only keeps it for keep ms if attempt is MAX. It returns
-- the time of the answer and ANSWERED or STORED.
local function settle(asks, n, now, record, keep, attempt)
  local r = load_record(record)
  if keep > 0 and attempt == MAX then
    local open = r and not r[5] and r[2] ~= REFUNDED
    for i = 1, n do
      load(asks[i])
      decide(asks[i], now, 0, PEEK, nil, nil, '')
      asks[i].allowed = open and 1 or 0
    end
    if open and call('PTTL', record) < keep then call('PEXPIRE', record, text(most(keep, test_life))) end
    return now, ANSWERED
  end
  local again = r and r[5]
  for i = 1, n do
    local a = asks[i]
    local w, at = a.weight, r and not again and not a.looks and not HOLDS_SLOTS(a.algorithm) and place(r, a.key)
    a.capacity, a.rate = capacity_of(a.algorithm, a.count, a.extra), rate_of(a.algorithm, a.count)
    a.allowed = r and 1 or 0
    load(a)
    if KEEPS_LIMIT(a.algorithm) then a.told = a.count end -- a settlement sets no limit
    if at and w > r[at + 3] then
      decide(a, now, w - r[at + 3], CHARGE)
    elseif at and w < r[at + 3] and separable(r, at, a) then
      a.refunded = decide(a, now, r[at + 3] - w, REFUND, r[at + 2], least(w * a.window, MAX))
      r[at + 3] = w
    else
      decide(a, now, 0, PEEK, nil, nil, '')
      if at then r[at + 3] = least(w, r[at + 3]) end
      -- What a stored answer tells about stays as it is.
      if again and place(r, a.key) and answer_settled(r, a) then a.value = false end
    end
    if KEEPS_LIMIT(a.algorithm) and not again then a.capacity = a.delay end
    if r and not again and w > 0 and not a.looks then note(a, now, true) end
  end
  store(asks, n)
  if not r then return now, ANSWERED end
  if again then return again, STORED end
  save_settled(record, r, asks, n, now)
  return now, ANSWERED
end

-- undo gives back what a take or charge of these asks has booked, as far as it
-- can be told from what others have done since. It goes by what stands under its
-- name, whose key it is given, and does so once; a take that comes later is refused.
-- With a record it does so only while that is neither gone, replaced, refunded,
-- committed nor held by another attempt.
local function undo(id, asks, n, now, record, whole, name, attempt)
  local booking = call('GET', name)
  local ok, what = pcall(cmsgpack.unpack, booking and booking ~= '' and booking or '\144')
  if not ok or type(what) ~= 'table' then bad_state() end
  for i = 1, n do
    local a = asks[i]
    a.booked_at, a.weight, a.base = what[3 * i - 2] or 0, what[3 * i - 1] or 0, what[3 * i] or 0
    if a.weight > 0 and (what[3 * n + i] or 0) < born(a.key) then a.weight = 0 end
  end
  local r = record and (what[1] or attempt ~= 0) and load_record(record)
  if r and not what[1] then -- it may rely on what another attempt has booked
    refund(id, asks, n, now, record, attempt)
    return call('SET', name, '', 'PX', text(ENDED_LIFE))
  end
  local before = r and r[2]
  if r then let_go(r, attempt) end
  local mine = what[1] and (not record or made_by(r, asks, n, whole))
  for i = 1, n do
    local a = asks[i]
    a.allowed = 1
    load(a)
    if mine and a.weight > 0 then
      a.refunded = decide(a, now, a.weight, UNDO, a.booked_at, a.base, id)
    else
      decide(a, now, 0, PEEK, nil, nil, '')
    end
  end
  store(asks, n)
  if record and mine then call('DEL', record) elseif r and r[2] ~= before then keep_record(record, r) end
  if what[1] then call('DEL', name) else call('SET', name, '', 'PX', text(ENDED_LIFE)) end
end

local function reset(asks, n, now)
  for i = 1, n do
    local a = asks[i]
    a.v, a.allowed = false, 1
    if SPANS_REGIONS(a.algorithm) then
      load(a)
      decide(a, now, 0, RESET)
    else
      decide(a, now, 0, PEEK, nil, nil, '')
    end
  end
  for i = 1, n do
    local a = asks[i]
    if not a.counts and not HOLDS_SLOTS(a.algorithm) then begin_anew(a, now) end
  end
  for i = 1, n do
    local a = asks[i]
    if SPANS_REGIONS(a.algorithm) then
      local failed = save(a.key, a.v, a.value, a.needed)
      if failed then error(failed, 0) end
      call('DEL', a.key .. ':h')
    else
      call('DEL', a.key)
      if a.side then call('DEL', a.side) end
    end
  end
end

-- apply books what a region has spent (see sums.lua), or restores what this one had, and returns the time of the answer
-- and ANSWERED, or STORED if that was known.
local function apply(op, region, a, now, came, heard)
  if op == RESTORE then
    local mark = call('GET', ARGV[2] .. ':kept')
    if not mark or mark == 'kept' then -- no restore is under way
      load(a)
      decide(a, now, 0, PEEK, nil, nil, '')
      a.allowed = 0
      return now, ANSWERED
    end
    region = ''
  end
  kernels[SPANS] = kernels[SPANS] or make(SPANS)
  local lib, code, v, state, s = kernels[SPANS], a.algorithm % GUARD, nil, nil, nil
  kernels[code] = kernels[code] or make(code)
  v, state, s = lib.read(code, a.key)
  local outcome, value, own, void, emptied, needed, remaining, reset, ended = lib.apply(kernels[code], code, state, s,
    now, a.count, a.window, a.extra, a.key, region, came, heard)
  if ended then begin_anew(a, now) end
  if outcome == APPLIED or emptied or value then
    local write = value
    if not LIST(code) then
      value = lib.join(value or not emptied and state, own)
    else
      value = function(life)
        if emptied then call('DEL', a.key) end
        if write then write(life) end
        call('SET', a.key .. ':t', own, 'PX', life)
      end
    end
  end
  local failed = save(a.key, v, value, lib.lasts(code, a.count, a.window, a.extra, needed, own))
  if failed then error(failed, 0) end
  for i = 1, #void do call('HDEL', heard, void[i]) end
  if outcome == APPLIED then call('HSET', heard, region, came.stored) end
  if outcome ~= SHRUNK then
    call('PEXPIRE', heard, text(most(lib.life(code, a.count, a.window, a.extra, came.shape), test_life)))
  end
  a.allowed, a.remaining, a.reset = outcome == SHRUNK and 0 or 1, remaining, reset
  a.capacity, a.rate = capacity_of(a.algorithm, a.count, a.extra), rate_of(a.algorithm, a.count)
  return now, outcome == REPEATED and STORED or ANSWERED
end

-- close ends the windows of buckets that may keep a limit for all takes.
local function close(asks, n, now)
  for i = 1, n do
    load(asks[i])
    decide(asks[i], now, 0, CLOSE)
    asks[i].allowed = 1
  end
  store(asks, n)
end

-- change_slots releases or renews slots of concurrency.
local function change_slots(op, id, asks, n, now)
  for i = 1, n do
    local a = asks[i]
    load(a)
    local result = decide(a, now, 0, op, nil, nil, id)
    if op == RELEASE then a.allowed, a.refunded = 1, result else a.allowed = result end
  end
  store(asks, n)
end

-- count_denials lets bans count one denial each, and lowers limits that buckets keep below what is spent; all of them
-- belong to a request that spans slots and was denied.
local function count_denials(asks, n, now)
  for i = 1, n do
    local a = asks[i]
    local began
    load(a)
    a.retry, began = decide(a, now, a.weight, COUNT)
    a.allowed, a.delay = a.retry == 0 and 1 or 0, began or 0
  end
  store(asks, n)
end

local function run(op, id, asks, n, now, record, whole, keep, name, attempt, came)
  if op <= CHARGE or op == COMMIT then return take(op, id, asks, n, now, record, whole, keep, name, attempt) end
  if op == SETTLE then return settle(asks, n, now, record, keep, attempt) end
  if op == APPLY or op == RESTORE then return apply(op, id, asks[1], now, came, record) end
  if op == UNDO then
    undo(id, asks, n, now, record, whole, name, attempt)
  elseif op == REFUND then
    refund(id, asks, n, now, record, attempt)
  elseif op == RESET then
    reset(asks, n, now)
  elseif op == CLOSE then
    close(asks, n, now)
  elseif op == COUNT then
    count_denials(asks, n, now)
  else
    change_slots(op, id, asks, n, now)
  end
  return now, ANSWERED
end

local long = {}

-- The request that is under way: what read has found and finish carries out.
local job = {asks = {}, op = TAKE, id = '', n = 0, record = nil, whole = 0, keep = 0, name = false, attempt = 0,
  came = false}

-- plain prepares the plain take of the n asks at m[pos]; their keys come behind
-- keys[k].
function long.plain(m, pos, n, keys, k)
  local asks = job.asks
  for i = 1, n do
    asks[i] = ask_of(i, m, pos + 5 * i - 5, keys[k + i])
    asks[i].place = k + i
  end
  job.op, job.id, job.n, job.record, job.whole, job.keep, job.name, job.attempt = TAKE, '', n, nil, 0, 0, false, 0
end

-- read prepares the request at m[pos] and returns where the next one begins, and
-- the last of its keys.
function long.read(m, pos, keys, k)
  local op, whole, n, asks = m[pos], m[pos + 2], m[pos + 3], job.asks
  job.id, job.whole, job.n, job.keep, job.record, job.name, job.attempt = m[pos + 1], whole, n, 0, nil, false, 0
  pos = pos + 4
  if op >= KEEPS then
    op, job.keep, job.attempt, pos = op - KEEPS, m[pos], m[pos + 1], pos + 2
  end
  local name = ''
  if type(whole) == 'string' then name, pos = m[pos], pos + 1 end
  job.op = op
  for i = 1, n do
    k = k + 1
    local a = ask_of(i, m, pos, keys[k])
    a.place = k
    if HOLDS_SLOTS(a.algorithm) then
      k = k + 1
      a.side = keys[k]
    end
    asks[i], pos = a, pos + 5
  end
  if op == APPLY or op == RESTORE then
    local windows, w = m[pos + 7], {}
    job.came = {stored = m[pos], born = m[pos + 1], reset = m[pos + 2], shape = m[pos + 3], taken = m[pos + 4],
      given = m[pos + 5], denied = m[pos + 6], w = w}
    for i = 1, 2 * windows do w[i] = m[pos + 7 + i] end
    pos, k = pos + 8 + 2 * windows, k + 1
    job.record = keys[k]
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

-- move carries out a MOVE from the bucket at former to that at key. Another edit may bring back the algorithm of the
-- former one: the bucket is then a new one, as after a reset.
function long.move(now, former, key, limits)
  local m = cmsgpack.unpack(limits)
  local from, to = ask_of(1, m, 1, former), ask_of(2, m, 6, key)
  to.told = to.count
  load(from)
  decide(from, now, 0, PEEK, nil, nil, '')
  local w = least(capacity_of(from.algorithm, from.count, from.extra) - most(0, from.remaining),
    capacity_of(to.algorithm, to.count, to.extra))
  if w > 0 then
    load(to)
    decide(to, now, w, CHARGE, nil, nil, '')
  end
  pcall(begin_anew, from, now) -- where no key may be added, because the slot leaves, it moves without
  if w > 0 then
    local failed = save(to.key, to.v, to.value, to.needed)
    if failed then error(failed, 0) end
  end
  call('DEL', from.key)
end

-- finish decides what was prepared, appends its answer behind out[o] and returns
-- where that ends.
function long.finish(now, out, o)
  local asks, n, part = job.asks, job.n, type(job.whole) == 'string'
  local at, kind = run(job.op, job.id, asks, n, now, job.record, job.whole, job.keep, job.name, job.attempt,
    job.came)
  out[o + 1], out[o + 2] = kind, at
  o = o + 2
  for i = 1, n do
    local a = asks[i]
    out[o + 1], out[o + 2], out[o + 3] = a.allowed, a.remaining, a.retry
    out[o + 4], out[o + 5], out[o + 6] = a.reset, a.delay, a.refunded
    o = o + 6
    if kind ~= ANSWERED then
      out[o + 1], out[o + 2] = a.capacity, a.rate
      o = o + 2
    end
    if part then
      out[o + 1], out[o + 2] = a.booked_at, a.held and 0 or a.booked
      out[o + 3] = type(a.base) == 'number' and a.base or 0
      o = o + 3
    end
  end
  return o
end

return long
