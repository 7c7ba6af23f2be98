-- log.lua: sliding_window_log. Mirrors limiter/log.go.
--
-- Stored as a list. Its last element, the tail, has the newest entries: 1 to BLOCK of them, or more once newer ones
-- were given back. A log of more has the others in blocks before it, oldest first, and between both the index: cmsgpack
-- of a flat array of three numbers a block, how many entries it has, their units, and the time of the newest. So a
-- request reads the tail, and only to find a wait, what has expired or what to give back, the index and one or two blocks.
--   block   form (a byte, 8*c + d), base (7 bytes, signed ms since 1970), entries
--   entry   how long after the base, d bytes, and its units, c bytes; c is 0 if all of them have one unit
--   tail    form, base, if c > 0 the units of the log, 7 bytes, and entries
--           with blocks: 64 + form, base, the units of the log, 7 bytes, how far the clock was set back since the blocks
--           were written (7 bytes, signed ms), the number of blocks (2 bytes), of their entries (3), of entries of the
--           first block that have expired (2) and their units (7), the time of the oldest entry (7), and entries
-- All numbers are big-endian. Units of 2^53 (OVER) stand for that many or more, which only charges reach.
--
-- State in memory: b (the entries of the tail), m (the number of blocks), closed (their entries that count), index,
-- total, moved, skip, skip_w, oldest and newest (times), newest_w, what expire has found (dead_*), and the pending
-- change: drop (blocks to remove on the left), cut (on the right), add (a block to append), edits (blocks to replace),
-- gone (a block to remove in the middle), dirty (the index changed).

local BLOCK, OVER = 256, MAX + 1
local LONG = '>Bi7I7i7I2I3I2I7i7'

local function plus(a, b) return a + b > MAX and OVER or a + b end

local function bytes_of(n)
  local size = 1
  while n >= 256 do n, size = n / 256, size + 1 end
  return size
end

-- entries makes what get and the others work on, of packed entries.
local items = {}
local function entries(form, base, packed)
  local far = form % 8
  local size = (form - far) / 8 + far
  local n, item = #packed / size, items[form]
  if far == 0 or n < 1 or n % 1 ~= 0 then bad_state() end
  if not item then
    item = '>I' .. far .. (size > far and 'I' .. size - far or '')
    items[form] = item
  end
  return {form = form, base = base, packed = packed, n = n, far = far, size = size, weighs = size > far, item = item}
end

-- get returns time and units of entry i.
local function get(b, i)
  local d, w = struct.unpack(b.item, b.packed, (i - 1) * b.size + 1)
  return b.base + d, b.weighs and w or 1
end

-- pack_entries makes entries of a flat list of times and units. slack leaves room for later ones.
local function pack_entries(list, slack)
  local base, heaviest, out = list[1], 1, {}
  for i = 2, #list, 2 do heaviest = most(heaviest, list[i]) end
  local far = bytes_of((list[#list - 1] - base) * 2)
  if slack then far = most(far, 2) end
  local form = (heaviest > 1 and 8 * bytes_of(heaviest) or 0) + far
  local item = '>I' .. far .. (heaviest > 1 and 'I' .. bytes_of(heaviest) or '')
  for i = 1, #list, 2 do out[(i + 1) / 2] = struct.pack(item, list[i] - base, list[i + 1]) end
  return entries(form, base, table.concat(out))
end

local function list_of(b, from, list)
  for i = from, b.n do
    list[#list + 1], list[#list + 2] = get(b, i)
  end
  return list
end

-- part returns the entries from i to j, at least one.
local function part(b, i, j) return entries(b.form, b.base, b.packed:sub((i - 1) * b.size + 1, j * b.size)) end

-- put returns b with an entry at i: in the place of the one there, or behind the last one, which may change b itself.
local function put(b, i, at, w)
  local d = at - b.base
  if d >= 256 ^ b.far or w >= 256 ^ (b.size - b.far) and (b.weighs or w > 1) then
    local list = list_of(b, 1, {})
    list[2 * i - 1], list[2 * i] = at, w
    return pack_entries(list, true)
  end
  if i > b.n then
    b.packed, b.n = b.packed .. struct.pack(b.item, d, w), i
    return b
  end
  return entries(b.form, b.base, b.packed:sub(1, (i - 1) * b.size) .. struct.pack(b.item, d, w)
    .. b.packed:sub(i * b.size + 1))
end

-- without returns b without entry i, nil if that was all.
local function without(b, i)
  if b.n == 1 then return nil end
  return entries(b.form, b.base, b.packed:sub(1, (i - 1) * b.size) .. b.packed:sub(i * b.size + 1))
end

-- units is the sum of the entries from i to j.
local function units(b, i, j)
  if not b.weighs then return j - i + 1 end
  local sum = 0
  for k = i, j do
    local _, w = get(b, k)
    sum = plus(sum, w)
  end
  return sum
end

-- after returns the first entry from i on that is later than limit, n+1 if none is.
local function after(b, i, limit)
  local high = b.n + 1
  while i < high do
    local mid = floor((i + high) / 2)
    if get(b, mid) > limit then high = mid else i = mid + 1 end
  end
  return i
end

-- open reads the state, or makes an empty one if v is false.
local function open(v, key, count, window)
  local tail = v and call('LINDEX', key, -1)
  -- All fields at once, so that the table need not grow.
  local s = {key = key, count = count, window = window, stored = tail and true, had = 0, b = false, n = 0, m = 0,
    closed = 0, index = false, total = 0, moved = 0, skip = 0, skip_w = 0, oldest = 0, newest = 0, newest_w = 0,
    limit = false, dead_blocks = 0, dead = 0, dead_w = 0, all = false, read = false, drop = 0, cut = 0, add = false,
    edits = false, gone = false, dirty = false}
  if not tail then return s end
  local form, size = byte(tail), #tail
  if size < 9 or form >= 128 then bad_state() end
  local _, base, at = nil, nil, nil
  if form < 64 then
    _, base, at = struct.unpack('>Bi7', tail)
    if form >= 8 then
      if size < 16 then bad_state() end
      s.total, at = struct.unpack('>I7', tail, at)
    end
  else
    if size < 44 then bad_state() end
    _, base, s.total, s.moved, s.m, s.closed, s.skip, s.skip_w, s.oldest, at = struct.unpack(LONG, tail)
    if s.m == 0 then bad_state() end
    form, s.had = form - 64, s.m
  end
  if s.total > OVER or base > MAX or base < -MAX then bad_state() end
  local b = entries(form, base, tail:sub(at))
  s.b, s.n = b, s.closed + b.n
  s.newest, s.newest_w = get(b, b.n)
  if s.m == 0 then
    if not b.weighs then s.total = b.n end
    s.oldest = b.n == 1 and s.newest or get(b, 1)
    if b.n > 1 and s.oldest >= s.newest then bad_state() end
  end
  return s
end

-- read_index makes sure that the index is in memory.
local function read_index(s)
  if s.index then return s.index end
  local ok, index = pcall(cmsgpack.unpack, call('LINDEX', s.key, -2) or '')
  if not ok or type(index) ~= 'table' or #index ~= 3 * s.m then bad_state() end
  s.index = index
  return index
end

-- load returns the entries of block k. The last one read stays in memory.
local function load(s, k)
  if s.read and s.read.k == k then return s.read end
  if s.add and k == s.m then return s.add end
  local at = s.gone and k >= s.gone and k + 1 or k
  if s.edits and s.edits[at] then return s.edits[at] end
  local v = call('LINDEX', s.key, at + s.drop - 1)
  if not v or #v < 9 or byte(v) >= 64 then bad_state() end
  local form, base, at = struct.unpack('>Bi7', v)
  s.read = entries(form, base + s.moved, v:sub(at))
  s.read.k = k
  return s.read
end

-- find returns the first block whose newest entry is later than limit, m+1 if none is.
local function find(s, limit)
  local index, i, high = read_index(s), 1, s.m + 1
  while i < high do
    local mid = floor((i + high) / 2)
    if index[3 * mid] + s.moved > limit then high = mid else i = mid + 1 end
  end
  return i
end

-- of_block is the units of block k that count.
local function of_block(s, k)
  local sum = read_index(s)[3 * k - 1]
  if k > 1 or s.skip == 0 then return sum end
  if sum < OVER then return sum - s.skip_w end
  local b = load(s, 1)
  return units(b, s.skip + 1, b.n)
end

-- expire finds what has expired at t: all, or dead_blocks whole blocks and in the next one (the tail behind the last)
-- the first dead entries; and their units.
local function expire(s, t)
  local limit = t - s.window
  if s.limit == limit then return end
  s.limit, s.dead_blocks, s.dead, s.dead_w, s.all = limit, 0, s.skip, 0, s.n == 0 or s.newest <= limit
  if s.all or s.oldest > limit then return end
  local b, w = s.b, 0
  if s.m > 0 then
    local k = find(s, limit)
    for i = 1, k - 1 do w = plus(w, of_block(s, i)) end
    if k <= s.m then b = load(s, k) end
    s.dead_blocks = k - 1
  end
  local from = s.dead_blocks == 0 and s.skip + 1 or 1
  local i = after(b, from, limit)
  s.dead, s.dead_w = i - 1, plus(w, units(b, from, i - 1))
end

-- live is the sum of the entries that count, or OVER.
local function live(s)
  if s.all then return 0 end
  if s.total < OVER then return s.total - s.dead_w end
  local sum, k = units(s.b, s.dead_blocks == s.m and s.dead + 1 or 1, s.b.n), s.m
  while k > s.dead_blocks + 1 do
    sum, k = plus(sum, of_block(s, k)), k - 1
  end
  if k > 0 and k > s.dead_blocks then
    local b = load(s, k)
    sum = plus(sum, units(b, s.dead + 1, b.n))
  end
  return sum
end

local function at_time(s, now)
  if s.n > 0 and s.newest > now then return s.newest end
  return now
end

-- wait is how long until the entries that remain, counted from the newest, leave room for w.
local function wait(s, now, w)
  local spare, b, k = s.count - w, s.b, s.m
  local sum = units(b, 1, b.n)
  if sum <= spare then
    spare = spare - sum
    while k > s.dead_blocks + 1 and of_block(s, k) <= spare do
      spare, k = spare - of_block(s, k), k - 1
    end
    b = load(s, k)
  end
  if not b.weighs then return get(b, b.n - spare) + s.window - now end
  for i = b.n, 1, -1 do
    local at, units_of = get(b, i)
    spare = spare - units_of
    if spare < 0 then return at + s.window - now end
  end
  bad_state()
end

local function rebase(s, now)
  if s.n == 0 or s.newest - now <= s.window then return false end
  local by = now - s.newest
  s.newest, s.oldest, s.b.base = now, s.oldest + by, s.b.base + by
  if s.m > 0 then s.moved = s.moved + by end
  return true
end

-- fits returns 0 if w fits, else the wait.
local function fits(s, now, w)
  if w > s.count then return NEVER end
  expire(s, at_time(s, now))
  if live(s) <= s.count - w then return 0 end
  return wait(s, now, w)
end

-- no_blocks is said once none is left.
local function no_blocks(s)
  s.m, s.closed, s.index, s.moved, s.skip, s.skip_w = 0, 0, false, 0, 0, 0
end

-- prune drops the expired entries.
local function prune(s)
  if s.all then
    s.drop, s.b, s.n, s.total, s.dead = s.drop + s.m, false, 0, 0, 0
    no_blocks(s)
    return
  end
  if s.limit and s.dead_w == 0 and s.dead == s.skip and s.dead_blocks == 0 then
    if s.total == OVER then s.total = live(s) end
    return
  end
  s.total = s.total == OVER and live(s) or s.total - s.dead_w
  if s.dead_blocks == s.m then
    s.drop = s.drop + s.m
    s.b = part(s.b, s.dead + 1, s.b.n)
    no_blocks(s)
    s.n, s.oldest = s.b.n, get(s.b, 1)
  else
    local index, b, gone = read_index(s), load(s, s.dead_blocks + 1), s.dead - s.skip
    for i = 1, s.dead_blocks do gone = gone + index[3 * i - 2] end
    s.closed, s.n, s.oldest = s.closed - gone, s.n - gone, get(b, s.dead + 1)
    s.skip, s.skip_w = s.dead, units(b, 1, s.dead)
    if s.dead_blocks > 0 then
      s.index, s.dirty = {}, true
      for i = 3 * s.dead_blocks + 1, 3 * s.m do s.index[#s.index + 1] = index[i] end
      s.drop, s.m = s.drop + s.dead_blocks, s.m - s.dead_blocks
      b.k = 1
    end
  end
  s.dead_blocks, s.dead, s.dead_w = 0, s.skip, 0
end

-- close makes a block of the tail.
local function close(s)
  local b = s.b
  if s.m == 0 then s.index = {} end
  local index = read_index(s)
  s.add = b
  s.m, s.closed, s.dirty = s.m + 1, s.closed + b.n, true
  index[3 * s.m - 2], index[3 * s.m - 1], index[3 * s.m] = b.n, units(b, 1, b.n), s.newest - s.moved
  s.b = false
end

local function spend(s, now, w)
  local t = at_time(s, now)
  expire(s, t)
  prune(s)
  if s.n > 0 and (s.newest == t or s.n > s.count) then
    -- The second case only a charge can reach. Joining the newest keeps the
    -- log bounded and forgets nothing early.
    local sum = least(plus(s.newest_w, w), MAX)
    s.total = plus(s.total, sum - s.newest_w)
    s.newest, s.newest_w, s.b = t, sum, put(s.b, s.b.n, t, sum)
    if s.n == 1 then s.oldest = t end
    return t
  end
  if s.n > 0 and s.b.n >= BLOCK then close(s) end
  if s.n == 0 then s.oldest = t end
  if s.b then
    s.b = put(s.b, s.b.n + 1, t, w)
  elseif w == 1 then -- the commonest, a new log
    s.b = entries(2, t, '\0\0')
  else
    s.b = pack_entries({t, w}, true)
  end
  s.total, s.n, s.newest, s.newest_w, s.all = plus(s.total, w), s.n + 1, t, w, false
  return t
end

local function lower_total(s, by)
  s.limit = false
  if s.total < OVER then s.total = s.total - by end
end

-- drop_last removes the last block.
local function drop_last(s)
  local index, k = read_index(s), s.m
  s.closed = s.closed - (index[3 * k - 2] - (k == 1 and s.skip or 0))
  s.cut, s.m, s.dirty = s.cut + 1, k - 1, true
  for i = 3 * k, 3 * k - 2, -1 do index[i] = nil end
  if s.m == 0 then no_blocks(s) end
end

-- pull makes the last block the tail, which is empty.
local function pull(s)
  local b = load(s, s.m)
  if s.m == 1 and s.skip > 0 then b = part(b, s.skip + 1, b.n) end
  drop_last(s)
  s.b, s.read = b, false
end

-- renew_newest looks at the end of the log again.
local function renew_newest(s)
  if not s.b and s.m > 0 then pull(s) end
  s.n = s.closed + (s.b and s.b.n or 0)
  if s.n == 0 then return end
  s.newest, s.newest_w = get(s.b, s.b.n)
  if s.m == 0 then s.oldest = get(s.b, 1) end
end

-- give_tail gives back up to w units of the entry i of the tail.
local function give_tail(s, i, w)
  local at, held = get(s.b, i)
  local give = least(w, held)
  lower_total(s, give)
  if give == held then s.b = without(s.b, i) else s.b = put(s.b, i, at, held - give) end
  renew_newest(s)
  return give
end

-- thin joins block k with the next one if both together are small.
local function thin(s, k)
  local index = s.index
  if k < 1 or k >= s.m or k == 1 and s.skip > 0 or index[3 * k - 2] + index[3 * k + 1] > BLOCK / 2 then return false end
  local function of(i) return s.edits[i] or load(s, i) end
  local list = list_of(of(k), 1, {})
  s.edits = {[k] = pack_entries(list_of(of(k + 1), 1, list))}
  index[3 * k - 2], index[3 * k - 1] = index[3 * k - 2] + index[3 * k + 1], plus(index[3 * k - 1], index[3 * k + 2])
  s.gone, s.read = k + 1, false
  for _ = 1, 3 do table.remove(index, 3 * k) end
  s.m = s.m - 1
  return true
end

-- give_block gives back up to w units of the entry i of block k.
local function give_block(s, k, i, w)
  local b, index = load(s, k), read_index(s)
  local at, held = get(b, i)
  local give = least(w, held)
  lower_total(s, give)
  s.dirty = true
  if give < held then
    b = put(b, i, at, held - give)
  else
    index[3 * k - 2], s.closed, s.n, b = b.n - 1, s.closed - 1, s.n - 1, without(b, i)
  end
  s.read = false
  if b and not (k == 1 and b.n == s.skip) then
    index[3 * k - 1] = index[3 * k - 1] < OVER and index[3 * k - 1] - give or units(b, 1, b.n)
    index[3 * k] = get(b, b.n) - s.moved
    s.edits = {[k] = b}
    if k == 1 then s.oldest = get(b, s.skip + 1) end
    if give == held and not thin(s, k) then thin(s, k - 1) end
    return give
  end
  s.gone, s.m = k, s.m - 1
  for _ = 1, 3 do table.remove(index, 3 * k - 2) end
  if k == 1 then
    s.skip, s.skip_w = 0, 0
    s.oldest = get(s.m > 0 and load(s, 1) or s.b, 1)
  end
  if s.m == 0 then no_blocks(s) end
  return give
end

local function refund(s, now, at, w)
  if s.n == 0 or at + s.window <= at_time(s, now) or at < s.oldest then return 0, false end
  local k, b, from = s.m + 1, s.b, 1
  if s.m > 0 and at < get(b, 1) then
    k = find(s, at - 1)
    if k > s.m then return 0, false end
    b, from = load(s, k), k == 1 and s.skip + 1 or 1
  end
  local i = after(b, from, at - 1)
  if i > b.n or get(b, i) ~= at then return 0, false end
  if k > s.m then return give_tail(s, i, w), true end
  return give_block(s, k, i, w), true
end

-- refund_now takes whole blocks while w covers them. An entry counts here if it does at its own time and at now: once
-- newer ones are given back, it is the newest.
local function refund_now(s, now, w)
  local given, limit, b = 0, now - s.window, s.b
  if s.n == 0 or w == 0 or s.newest <= limit then return 0, false end
  local n = b.n
  while true do
    while n > 0 and given < w do
      local at, held = get(b, n)
      if at <= limit then break end
      if held > w - given then
        b, given = put(part(b, 1, n), n, at, held - (w - given)), w
        break
      end
      given, n = given + held, n - 1
    end
    if n > 0 or s.m == 0 or given >= w then break end
    local sum = of_block(s, s.m)
    local before = s.m == 1 and s.oldest or s.index[3 * s.m - 3] + s.moved
    if sum < OVER and sum <= w - given and before > limit then
      given = given + sum
      drop_last(s)
    else
      pull(s)
      b, n = s.b, s.b.n
    end
  end
  s.b = n > 0 and part(b, 1, n)
  lower_total(s, given)
  renew_newest(s)
  return given, true
end

local function figures(s, now)
  expire(s, at_time(s, now))
  if s.all then return s.count, 0 end
  return most(0, s.count - live(s)), s.newest + s.window - now
end

local function save(s, life)
  local b = s.b
  if s.n == 0 then
    call('DEL', s.key)
    return
  end
  local tail
  if s.m == 0 then
    tail = struct.pack('>Bi7', b.form, b.base) .. (b.weighs and struct.pack('>I7', s.total) or '') .. b.packed
  else
    tail = struct.pack(LONG, 64 + b.form, b.base, s.total, s.moved, s.m, s.closed, s.skip, s.skip_w, s.oldest) .. b.packed
  end
  local function block(e) return struct.pack('>Bi7', e.form, e.base - s.moved) .. e.packed end
  if s.edits then
    for k, e in pairs(s.edits) do call('LSET', s.key, k - 1, block(e)) end
  end
  if s.gone then
    call('LSET', s.key, s.gone - 1, '')
    call('LREM', s.key, 1, '')
  end
  if not s.stored then
    call('RPUSH', s.key, tail)
  elseif s.drop > 0 or s.cut > 0 or s.add or s.had > 0 and s.m == 0 then
    call('LTRIM', s.key, s.drop, -2 - s.cut - (s.had > 0 and 1 or 0))
    local last = {}
    if s.add then last[1] = block(s.add) end
    if s.m > 0 then last[#last + 1] = cmsgpack.pack(s.index) end
    last[#last + 1] = tail
    call('RPUSH', s.key, unpack(last))
  else
    if s.dirty then call('LSET', s.key, -2, cmsgpack.pack(s.index)) end
    call('LSET', s.key, -1, tail)
  end
  call('PEXPIRE', s.key, life)
end

return function(v, now, count, window, _, w, _, key, how, booked)
  local s = open(v, key, count, window)
  local changed, result, did, booked_at = rebase(s, now), 0, false, nil
  if how == REFUND or how == UNDO then
    if booked then
      result, did = refund(s, now, booked, w)
    else
      result, did = refund_now(s, now, w)
    end
  else
    result = fits(s, now, w)
    if w > 0 and (result == 0 and how ~= PEEK or how == CHARGE) then
      booked_at, did = spend(s, now, w), true
    end
  end
  local remaining, reset = figures(s, now)
  local needed = (s.n > 0 or did) and s.newest + window - now or 0
  local value = (changed or did) and function(life) save(s, life) end
  return value, needed, result, remaining, reset, nil, booked_at
end
