-- logblocks.lua: entries and blocks of a sliding_window_log, which log.lua describes and uses.

-- JOINS is how often a charge above the limit joins the two oldest entries.
local BLOCK, OVER, JOINS = 256, MAX + 1, 512
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

local function at_time(s, now)
  if s.n > 0 and s.newest > now then return s.newest end
  return now
end

-- no_blocks is said once none is left.
local function no_blocks(s)
  s.m, s.closed, s.index, s.moved, s.skip, s.skip_w = 0, 0, false, 0, 0, 0
end

local read_index, load, find, of_block, pack_block, close, refund, refund_now, join

-- make_rare makes the functions that only logs of blocks and refunds need.
local function make_rare()
  if load then return end

  -- read_index makes sure that the index is in memory.
  function read_index(s)
    if s.index then return s.index end
    local ok, index = pcall(cmsgpack.unpack, call('LINDEX', s.key, -2) or '')
    if not ok or type(index) ~= 'table' or #index ~= 3 * s.m then bad_state() end
    s.index = index
    return index
  end

  -- load returns the entries of block k. The last one read stays in memory.
  function load(s, k)
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
  function find(s, limit)
    local index, i, high = read_index(s), 1, s.m + 1
    while i < high do
      local mid = floor((i + high) / 2)
      if index[3 * mid] + s.moved > limit then high = mid else i = mid + 1 end
    end
    return i
  end

  -- of_block is the units of block k that count.
  function of_block(s, k)
    local sum = read_index(s)[3 * k - 1]
    if k > 1 or s.skip == 0 then return sum end
    if sum < OVER then return sum - s.skip_w end
    local b = load(s, 1)
    return units(b, s.skip + 1, b.n)
  end

  -- pack_block is what Redis stores of a block.
  function pack_block(s, e) return struct.pack('>Bi7', e.form, e.base - s.moved) .. e.packed end

  -- close makes a block of the tail.
  function close(s)
    local b = s.b
    if s.m == 0 then s.index = {} end
    local index = read_index(s)
    s.add = b
    s.m, s.closed, s.dirty = s.m + 1, s.closed + b.n, true
    index[3 * s.m - 2], index[3 * s.m - 1], index[3 * s.m] = b.n, units(b, 1, b.n), s.newest - s.moved
    s.b = false
  end

  -- without returns b without entry i, nil if that was all.
  local function without(b, i)
    if b.n == 1 then return nil end
    return entries(b.form, b.base, b.packed:sub(1, (i - 1) * b.size) .. b.packed:sub(i * b.size + 1))
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
    if k < 1 or k >= s.m or k == 1 and s.skip > 0 then return false end
    if index[3 * k - 2] + index[3 * k + 1] > BLOCK / 2 then return false end
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

  -- join joins the two oldest entries n times, each time at the newer of their times: n + 1 become one. There are more
  -- than n, and none that has expired.
  function join(s, n)
    local sum, k, b, before = 0, 1, s.b, s.skip
    local index = s.m > 0 and read_index(s)
    s.n, s.closed = s.n - n, s.closed - n
    while k <= s.m and index[3 * k - 2] - before <= n do
      sum, n, before, k = plus(sum, of_block(s, k)), n - (index[3 * k - 2] - before), 0, k + 1
    end
    if k <= s.m then b = load(s, k) end
    n = n + before
    sum = plus(sum, units(b, before + 1, n))
    b = part(b, n + 1, b.n)
    local at, w = get(b, 1)
    w = least(plus(sum, w), MAX)
    b = put(b, 1, at, w)
    s.limit, s.oldest, s.drop, s.read = false, at, s.drop + k - 1, false
    if k > s.m then
      no_blocks(s)
      s.b = b
      if b.n == 1 then s.newest_w = w end
      return
    end
    s.index, s.dirty = {b.n, units(b, 1, b.n)}, true
    for i = 3 * k, 3 * s.m do s.index[#s.index + 1] = index[i] end
    s.m, s.skip, s.skip_w, s.edits = s.m - k + 1, 0, 0, {[s.drop + 1] = b}
    b.k, s.read = 1, b
  end

  function refund(s, now, at, w)
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
  function refund_now(s, now, w)
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
end
