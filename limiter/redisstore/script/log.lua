-- log.lua: sliding_window_log. Mirrors limiter/log.go.
--
-- Stored as a list. Its last element, the tail, has the newest entries: 1 to BLOCK of them, or more once newer ones
-- were given back. A log of more has the others in blocks before it, oldest first, and between both the index: cmsgpack
-- of a flat array of three numbers a block: how many entries it has, their units, and the time of the newest. So a
-- request reads the tail. Only to find a wait, what has expired or what to give back does it read the index and one or
-- two blocks. logblocks.lua has what works on entries and blocks.
--   block   form (a byte, 8*c + d), base (7 bytes, signed ms since 1970), entries
--   entry   how long after the base, d bytes, and its units, c bytes; c is 0 if all of them have one unit
--   tail    form, base, if c > 0 the units of the log, 7 bytes, and entries
--           with blocks: 64 + form, base, the units of the log, 7 bytes, how far the clock was set back since the
--           blocks were written (7 bytes, signed ms), the number of blocks (2), of their entries (3), of entries of
--           the first block that have expired (2) and their units (7), the time of the oldest entry (7), and entries
-- extra is by how many units an elastic limit may be raised. All numbers are big-endian. Units of 2^53 (OVER) stand
-- for that many or more, which only charges reach.
--
-- State in memory: b (the entries of the tail), m (the number of blocks), closed (their entries that count), index,
-- total, moved, skip, skip_w, oldest and newest (times), newest_w, what expire has found (dead_*), and the pending
-- change: drop (blocks to remove on the left), cut (on the right), add (a block to append), edits (blocks to replace),
-- gone (a block to remove in the middle), dirty (the index changed).

-- open reads the state, or makes an empty one if v is false.
local function open(v, key, count, window, spare)
  local tail = v and call('LINDEX', key, -1)
  -- All fields at once, so that the table need not grow.
  local s = {key = key, count = count, most = count + spare, window = window, stored = tail and true, had = 0,
    b = false, n = 0, m = 0,
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
    make_rare()
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

local function spend(s, now, w)
  local t = at_time(s, now)
  expire(s, t)
  prune(s)
  local same = s.newest == t
  if s.n > s.most then
    -- Only charges hold more entries than the limit has units. Of limit + 1 the oldest can wait until the next expires:
    -- the rest fill the limit for as long. Under a limit of 0 this one joins the newest of those before.
    local joins = least(s.n - s.most - (same and 1 or 0), JOINS)
    if joins == s.n then same, joins = true, joins - 1 end
    if joins > 0 then
      make_rare()
      join(s, joins)
    end
  end
  if s.n > 0 and same then
    local sum = least(plus(s.newest_w, w), MAX)
    s.total = plus(s.total, sum - s.newest_w)
    s.newest, s.newest_w, s.b = t, sum, put(s.b, s.b.n, t, sum)
    if s.n == 1 then s.oldest = t end
    return t
  end
  if s.n > 0 and s.b.n >= BLOCK then
    make_rare()
    close(s)
  end
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

local function figures(s, now)
  expire(s, at_time(s, now))
  if s.all then return s.count, 0 end
  return s.count - least(live(s), MAX), s.newest + s.window - now
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
    tail = struct.pack(LONG, 64 + b.form, b.base, s.total, s.moved, s.m, s.closed, s.skip, s.skip_w, s.oldest)
      .. b.packed
  end
  if s.edits then
    for k, e in pairs(s.edits) do call('LSET', s.key, k - 1, pack_block(s, e)) end
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
    if s.add then last[1] = pack_block(s, s.add) end
    if s.m > 0 then last[#last + 1] = cmsgpack.pack(s.index) end
    last[#last + 1] = tail
    call('RPUSH', s.key, unpack(last))
  else
    if s.dirty then call('LSET', s.key, -2, cmsgpack.pack(s.index)) end
    call('LSET', s.key, -1, tail)
  end
  call('PEXPIRE', s.key, life)
end

return function(v, now, count, window, spare, w, _, key, how, booked)
  local s = open(v, key, count, window, spare)
  local changed, result, did, booked_at = rebase(s, now), 0, false, nil
  if how == REFUND or how == UNDO then
    make_rare()
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
