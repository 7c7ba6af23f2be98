-- decide.lua: one request against its buckets. Mirrors limiter/decide.go.
--
-- An ask is a table: algorithm, count, window, burst/buckets/anchor, weight, key
-- (and side), kernel, state, and the answer: allowed (0 or 1), remaining, retry,
-- reset, delay, refunded. Every function here reads and decides; only the last
-- step writes, after everything has been read and found to be ours.

-- A call pays for making the functions of a kernel only if it needs them.
local MAKERS = {make_fixed, make_log, make_counter, make_buckets, make_level, make_gcra,
  make_level, make_level, make_lease, make_fixed}
local kernels = {}
local function kernel_of(algorithm)
  local make = MAKERS[algorithm]
  local k = kernels[make]
  if not k then
    k = make()
    kernels[make] = k
  end
  return k
end

local function load_all(asks, n)
  for i = 1, n do
    local a = asks[i]
    a.state = a.kernel.load(a)
  end
end

-- store writes the changed states and keeps the others alive for as long as
-- they count. It returns the longest time any of them is needed.
local function store(asks, n, now)
  local longest = 0
  for i = 1, n do
    local a = asks[i]
    local s = a.state
    if a.changed or s.exists then
      local k = a.kernel
      local needed = k.expires(a, s) - now
      if needed > longest then longest = needed end
      if a.changed or (k.tidy and k.tidy(a, s)) then
        k.save(a, s, life_of(needed))
      elseif needed > 0 and call('PTTL', a.key) < needed then
        k.keep(a, life_of(needed), s)
      end
    end
  end
  return longest
end

local function figures(asks, n, now)
  for i = 1, n do
    local a = asks[i]
    a.remaining, a.reset = a.kernel.figures(a, a.state, now)
  end
end

local function look(asks, n, now, id)
  local all = true
  for i = 1, n do
    local a = asks[i]
    local k, s = a.kernel, a.state
    a.changed = s.exists and k.rebase(a, s, now)
    local ok, retry = k.fits(a, s, now, a.weight, id)
    a.allowed, a.retry, a.booked, a.booked_at = ok and 1 or 0, retry, 0, 0
    if a.algorithm == LEAKY_QUEUE then a.delay = k.delay(a, s, now, ok) end
    all = all and ok
  end
  return all
end

local function spend(asks, n, now, id)
  local total = 0
  for i = 1, n do
    local a = asks[i]
    local w = a.weight
    if w > 0 and not a.looks then
      local s = a.state
      a.booked_at, a.booked = a.kernel.spend(a, s, now, w, id), w
      s.exists, a.changed, total = true, true, total + w
    end
  end
  return total
end

-- What a part of a request that spans slots has booked is kept for a moment under
-- the name of the attempt, so that it can be given back exactly once and whether
-- or not its answer arrived: cmsgpack of time, units and base an ask, or '' once
-- nobody may book under that name any more.
-- The empty mark lives twice as long as a name: a take that was lost on its way is
-- sent again by TCP after at most as long as it has been lost already.
local NAME_LIFE, ENDED_LIFE = 30000, 60000

-- sign writes down what has been booked under a name, before anything else is
-- written. In a slot that is leaving this server no key may be added: the request
-- is refused there. The name's key is not among KEYS, or it would be refused where
-- the slot goes to as well.
local function sign(asks, n, now, name)
  local what, life, key = {}, 1000, asks[1].key
  for i = 1, n do
    local a = asks[i]
    what[3 * i - 2], what[3 * i - 1], what[3 * i] = a.booked_at, a.held and 0 or a.booked, a.base
    if a.changed then life = most(life, a.kernel.expires(a, a.state) - now) end
  end
  local done = redis.pcall('SET', sub(key, 1, string.find(key, '}', 1, true)) .. ':g:' .. name, cmsgpack.pack(what),
    'NX', 'PX', text(most(least(life, NAME_LIFE), test_life)))
  if not done then error({err = 'GIVENUP what this request takes has been given back'}, 0) end
  if done.err then error({err = 'TRYAGAIN the slot is on its way to another server'}, 0) end
end

-- take serves take, commit, peek and charge. It returns the time of the answer
-- and 0, or 1 if that is a stored one, or 3 if that is committed. Only parts
-- peek with a record.
local function take(op, id, asks, n, now, record, whole, keep, name)
  if record then
    local r = load_record(record)
    if replays(r, asks, n, now, whole) then
      if op == COMMIT and r[2] == 0 then
        r[2] = COMMITTED
        keep_record(record, r)
      end
      answer_from(r, asks, n)
      return r[1], (r[2] == COMMITTED or r[5]) and 3 or 1
    end
  end
  load_all(asks, n)
  local all, spent = look(asks, n, now, id), 0
  if op == CHARGE or (op ~= PEEK and all) then spent = spend(asks, n, now, id) end
  if name and spent > 0 then sign(asks, n, now, name) end
  figures(asks, n, now)
  local longest = store(asks, n, now)
  if record and spent > 0 then
    save_record(record, asks, n, now, longest, whole, op == COMMIT and COMMITTED or 0, keep)
  end
  return now, 0
end

local function refund(id, asks, n, now, record)
  local r = record and load_record(record)
  load_all(asks, n)
  for i = 1, n do
    local a = asks[i]
    local k, s, did = a.kernel, a.state, false
    a.changed = s.exists and k.rebase(a, s, now)
    if id == '' then
      if s.exists and a.weight > 0 then a.refunded, did = k.refund_now(a, s, now, a.weight) end
    else
      local at, w = claim(r, a)
      if k.release then
        a.refunded, did = k.release(a, s, now, id)
      elseif s.exists and w > 0 then
        a.refunded, did = k.refund(a, s, now, at, w)
      end
    end
    a.allowed, a.changed = 1, a.changed or did
  end
  figures(asks, n, now)
  store(asks, n, now)
  if r and r[2] == REFUNDED then keep_record(record, r) end
end

-- settle makes what a record says weigh what the asks say. It returns the time of
-- the answer and 0, or 1 if that is a stored one.
local function settle(asks, n, now, record)
  local r = load_record(record)
  local again = r and r[5]
  load_all(asks, n)
  for i = 1, n do
    local a = asks[i]
    local k, s, w = a.kernel, a.state, a.weight
    a.capacity, a.allowed = capacity_of(a.algorithm, a.count, a.burst), r and 1 or 0
    a.rate = rate_of(a.algorithm, a.count)
    a.changed = s.exists and not (again and answer_settled(r, a)) and k.rebase(a, s, now)
    local at = r and not again and not a.looks and not k.release and place(r, a.key)
    if at then
      local did = false
      if w > r[at + 3] then
        k.spend(a, s, now, w - r[at + 3], '')
        s.exists, did = true, true
      elseif w < r[at + 3] then
        if s.exists and tells(r, at, a) then
          a.refunded, did = k.refund(a, s, now, r[at + 2], r[at + 3] - w, least(w * a.window, MAX))
        end
        r[at + 3] = w
      end
      a.changed = a.changed or did
    end
  end
  figures(asks, n, now)
  store(asks, n, now)
  if not r then return now, 0 end
  if again then
    for i = 1, n do answer_settled(r, asks[i]) end
    return again, 1
  end
  save_settled(record, r, asks, n, now)
  return now, 0
end

-- undo gives back what a take or charge of these asks has booked, as far as it
-- can be told from what others have done since. It goes by what stands under its
-- name, whose key it is given, and does so once; a take that comes later is refused.
-- With a record it does so only while that is neither gone, replaced, refunded nor
-- committed.
local function undo(id, asks, n, now, record, whole, name)
  local signed = call('GET', name)
  local ok, what = pcall(cmsgpack.unpack, signed and signed ~= '' and signed or '\144')
  if not ok or type(what) ~= 'table' then bad_state() end
  for i = 1, n do
    local a = asks[i]
    a.booked_at, a.weight, a.base = what[3 * i - 2] or 0, what[3 * i - 1] or 0, what[3 * i] or 0
  end
  local mine = what[1] and (not record or made_by(load_record(record), asks, n, whole))
  load_all(asks, n)
  for i = 1, n do
    local a = asks[i]
    local k, s, did = a.kernel, a.state, false
    a.changed, a.allowed = s.exists and k.rebase(a, s, now), 1
    if mine and s.exists and a.weight > 0 then
      if k.release then
        a.refunded, did = k.release(a, s, now, id)
      else
        a.refunded, did = (k.undo or k.refund)(a, s, now, a.booked_at, a.weight, a.base)
      end
    end
    a.changed = a.changed or did
  end
  figures(asks, n, now)
  store(asks, n, now)
  if record and mine then call('DEL', record) end
  if what[1] then call('DEL', name) else call('SET', name, '', 'PX', text(ENDED_LIFE)) end
end

local function reset(asks, n, now)
  for i = 1, n do
    local a = asks[i]
    a.state = {exists = false, at = 0, used = 0, prev = 0, scale = 0, n = 0, total = 0, dead_n = 0,
      extra = 0, dead_extra = 0, dead_w = 0, newest = 0, index = {}, units = {}}
    a.allowed = 1
  end
  figures(asks, n, now)
  for i = 1, n do
    call('DEL', asks[i].key)
    if asks[i].side then call('DEL', asks[i].side) end
  end
end

local function hold(op, id, asks, n, now)
  load_all(asks, n)
  for i = 1, n do
    local a = asks[i]
    local lease, s, did = a.kernel, a.state, false
    a.changed, a.allowed = s.exists and lease.rebase(a, s, now), 1
    if op == RELEASE then
      a.refunded, did = lease.release(a, s, now, id)
    else
      did = lease.renew(a, s, now, id)
      a.allowed = did and 1 or 0
    end
    a.changed = a.changed or did
  end
  figures(asks, n, now)
  store(asks, n, now)
end
