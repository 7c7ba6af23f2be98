-- sums.lua: what a region has spent in a bucket whose limit spans regions. Mirrors limiter/sums.go and
-- limiter/apply.go.
--
-- Sums are one string, which stands behind the state in the bucket's value, and for a log, whose state is a
-- list, at a key of its own (":t" behind the bucket's name):
--   born, reset, given, shape, denied, rest   7 bytes each; rest: what was taken less the units of the newest window
--   windows that are over               14 bytes each, newest first: number (signed), units
--   share                               4 bytes: the guard's, plus LEAD if the region leads; 0 for none
--   told                                a double: the units of the newest window that the others have heard of
--   number                              of the newest window, a double, which costs the least to read and to write
--   mark                                2 bytes, little-endian as the doubles: twice the size of all this, and 1 if
--                                       the bucket is in the set of changed ones
--   units                               of the newest window, a double
-- Without a window the number is NO_WINDOW and shape 0. The commonest take (the window is that of the take
-- before it, and the bucket is listed) changes units alone (spans.lua).
--
-- What was applied from other regions is a hash (":h" behind the bucket's name): by region, its sums.
--
-- In memory sums are a table: the fields, and in w the windows, newest first: number, units, number, units ...

local sub, ceil = string.sub, math.ceil

local sums = {}

-- open reads sums, or makes empty ones. It returns nil if s is none of ours.
local function open(s)
  local m = {born = 0, reset = 0, given = 0, shape = 0, denied = 0, taken = 0, share = 0, told = 0, listed = 0, w = {}}
  if not s then return m end
  local n = #s
  if n < SUMS_LEAST or (n - SUMS_LEAST) % 14 ~= 0 then return nil end
  local share, told, number, mark, units = unpack_bytes('<I4ddI2d', s, n - SUMS_HOT + 1)
  m.born, m.reset, m.given, m.shape, m.denied, m.taken = unpack_bytes('>I7I7I7I7I7I7', s)
  m.share, m.told = share, told
  m.listed = mark % 2
  if number == NO_WINDOW then return m end
  m.taken, m.w[1], m.w[2] = m.taken + units, number, units
  for at = SUMS_LEAST - SUMS_HOT + 1, n - SUMS_HOT, 14 do
    m.w[#m.w + 1], m.w[#m.w + 2] = unpack_bytes('>i7I7', s, at)
  end
  return m
end

local function close(m)
  local w = m.w
  local units = w[2] or 0
  local out = {pack('>I7I7I7I7I7I7', m.born, m.reset, m.given, m.shape, m.denied, m.taken - units)}
  for i = 3, #w, 2 do out[#out + 1] = pack('>i7I7', w[i], w[i + 1]) end
  local size = SUMS_LEAST + (#out - 1) * 14
  out[#out + 1] = pack('<I4ddI2d', m.share, m.told, w[1] or NO_WINDOW, 2 * size + m.listed, units)
  return table.concat(out)
end

-- grid_of says how the windows of a limit are numbered.
local function grid_of(code, count, window, extra)
  local g = {anchor = 0, length = window, parts = 1, kept = 2, dated = code == COUNTER, first_hit = false}
  if code == FIXED_WINDOW or code == FIRST_HIT then
    g.kept, g.dated, g.first_hit = 1, true, code == FIRST_HIT
    if code == FIXED_WINDOW then g.anchor = extra end
  elseif code == BUCKETS then
    g.parts, g.kept, g.dated = extra, extra + 1, true
  elseif DRAINS(code) then
    g.length = count > 0 and least(ONE_OFF, most(1, ceil(extra * window / count))) or ONE_OFF
  end
  g.shape = g.length * SHAPES + (g.first_hit and 0 or g.parts)
  return g
end

local function number_of(g, t)
  if g.first_hit then return t end
  t = (t - g.anchor) * g.parts
  return (t - t % g.length) / g.length
end

local function start_of(g, number)
  if g.first_hit then return number end
  return g.anchor + ceil(number * g.length / g.parts)
end

local function covers(g, number, t)
  if g.first_hit then return t >= number and t - number < g.length end
  return number_of(g, t) == number
end

-- begin begins an incarnation, unless nothing was counted in the present one.
local function begin(m, g, now)
  if m.born == 0 or m.taken > 0 then
    m.born = most(most(now, m.born + 1), m.reset)
    m.denied, m.share = 0, 0
  end
  m.told, m.shape, m.taken, m.given, m.w = 0, g.shape, 0, 0, {}
end

-- follow makes the window with that number the newest.
local function follow(m, g, number, now)
  if m.born == 0 or m.shape ~= g.shape then begin(m, g, now) end
  if m.w[1] then
    local ago = m.w[1] - number
    if ago == 0 or ago == 1 and not g.dated then return end
    if ago > 0 then begin(m, g, now) end
  end
  local w = {number, 0}
  for i = 1, #m.w, 2 do
    if not g.first_hit and number - m.w[i] < g.kept then w[#w + 1], w[#w + 2] = m.w[i], m.w[i + 1] end
  end
  m.w, m.told = w, 0
end

-- list puts the bucket into the set of changed ones, once. Where that is refused (a slot that moves), the next
-- change tries again.
local function list(m, member)
  if m.listed == 0 then
    local done = try('SADD', ARGV[2], member)
    if type(done) == 'number' then m.listed = 1 end
  end
end

-- member_of is what stands for a bucket in the set of changed ones: the key that holds its sums.
local function member_of(code, key) return LIST(code) and key .. ':t' or key end

-- read returns what is stored of a bucket, its state and its sums.
function sums.read(code, key)
  local v = call('GET', member_of(code, key))
  local n = v and #v or 0
  local size = n >= SUMS_LEAST and unpack_bytes('<I2', v, n - 9) or 0
  size = (size - size % 2) / 2
  if v and (size < SUMS_LEAST or size > n) then bad_state() end
  if LIST(code) then return true, true, v end
  return v, size < n and sub(v, 1, n - size), v and sub(v, n - size + 1)
end

-- counted returns the sums of s after w units were booked in the window with that number.
function sums.counted(s, code, count, window, extra, number, now, w, member)
  local m, g = open(s), grid_of(code, count, window, extra)
  if not m then bad_state() end
  follow(m, g, number, now)
  if m.taken > MAX - w then
    begin(m, g, now)
    m.w = {number, 0}
  end
  m.taken, m.w[2] = m.taken + w, m.w[2] + w
  list(m, member)
  return close(m)
end

-- held is a take of w units that the guard holds back, or looks whether it would (how = PEEK). It counts what was asked
-- for, and returns what a kernel does but for the result: value, needed, reset and the sums.
function sums.held(kernel, code, state, s, now, count, window, extra, w, key, how, member)
  local value, needed, _, _, reset = kernel(state, now, count, window, extra, w, code, key, PEEK)
  if how == PEEK then return value, needed, reset, s end
  local m = open(s)
  if m.born == 0 then m.born = most(most(now, 1), m.reset) end
  m.denied = m.denied > MAX - w and MAX or m.denied + w
  list(m, member)
  s = close(m)
  if LIST(code) then
    save(member, false, s, most(needed, SUMS_MARGIN))
  else
    save(key, false, (value or state or '') .. s, most(needed, SUMS_MARGIN))
    value = false
  end
  return value, needed, reset, s
end

-- give counts units as given back, of those booked at a time.
local function give(m, g, at, units)
  m.given = m.given + units
  for i = 1, #m.w, 2 do
    if not g.dated or covers(g, m.w[i], at) then
      local part = least(units, m.w[i + 1])
      m.w[i + 1], units = m.w[i + 1] - part, units - part
    end
  end
end

-- held is how many units this region has in the bucket that were booked at a time.
local function held(m, g, at, now)
  local units = 0
  if m.shape ~= g.shape then return 0 end
  for i = 1, #m.w, 2 do
    if not g.dated and number_of(g, now) - m.w[i] < g.kept or g.dated and covers(g, m.w[i], at) then
      units = units + m.w[i + 1]
    end
  end
  return units
end

-- refund gives back up to w units that this region has spent, as kernel does, and returns what it returns,
-- then the sums.
function sums.refund(kernel, code, state, s, now, count, window, extra, w, key, how, booked, base, member)
  local m, g = open(s), grid_of(code, count, window, extra)
  if not m then bad_state() end
  local value, needed, result, remaining, reset = false, 0, 0, 0, 0
  local function once(at, units)
    local changed, given, scaled
    changed, needed, given, remaining, reset, scaled = kernel(state, now, count, window, extra, units, code, key,
      units > 0 and how or PEEK, at, base)
    if changed == nil then bad_state() end
    if units > 0 then
      result = result + given
      if DRAINS(code) then -- the nearest whole number
        scaled = (scaled or 0) + (window - window % 2) / 2
        given = least((scaled - scaled % window) / window, held(m, g, at or now, now))
      end
      if given > 0 then
        give(m, g, at or now, given)
        list(m, member)
      end
    end
    if changed then
      value = changed
      if not LIST(code) then state = changed ~= '' and changed end
    end
  end
  if booked or not g.dated then
    once(booked, least(w, held(m, g, booked or now, now)))
  else
    for i = 1, #m.w, 2 do
      local at = start_of(g, m.w[i])
      local units = least(w - result, held(m, g, at, now))
      if units > 0 then once(at, units) end
    end
    once(nil, 0)
  end
  return value, needed, result, remaining, reset, close(m)
end

-- reset returns the sums after a reset, which makes void what was born before it. heard is what HGETALL says.
function sums.reset(s, now, heard, member)
  local m = open(s) or open(nil)
  local at = most(now, most(m.born, m.reset) + 1)
  for i = 2, #heard, 2 do
    local h = open(heard[i])
    if h then at = most(at, h.born + 1) end
  end
  m = open(nil)
  m.born, m.reset = at, at
  list(m, member)
  return close(m)
end

-- life is for how long, ms, what was applied is remembered.
function sums.life(code, count, window, extra)
  local g = grid_of(code, count, window, extra)
  return least(ceil((g.kept + 1) * g.length / g.parts) + SUMS_MARGIN, LONGEST)
end

-- apply books in a bucket what a region has spent since what was last applied from it (heard, the hash as
-- HGETALL says; came, its sums as a table). It changes nothing in Redis. It returns
--   outcome   APPLIED, REPEATED or SHRUNK
--   value     of the bucket, false if it does not change
--   s         its sums
--   new       what to remember of the region, or nil
--   void      the regions of which nothing is to be remembered
--   emptied   whether a reset has emptied the bucket
--   needed, remaining, reset   as of a kernel
function sums.apply(kernel, code, state, s, now, count, window, extra, key, region, came, heard)
  local own, g = open(s), grid_of(code, count, window, extra)
  if not own then bad_state() end
  local value, needed, remaining, reset, arrived, t = false, 0, 0, 0, 0, now
  local function run(at, w, how, booked)
    local changed, need, _, remains, resets, _, booked_at = kernel(state, at, count, window, extra, w, code, key, how,
      booked)
    if changed == nil then bad_state() end
    if changed then value = changed end
    if changed and not LIST(code) then state = changed ~= '' and changed end
    needed, remaining, reset = need, remains, resets
    return booked_at
  end
  local function book(shape, number, units)
    if g.first_hit and shape == g.shape then
      local at, began = most(now, number), nil
      if number - now > window then
        at = now
      elseif at - number >= window then
        return
      else
        if state then began = tonumber(state:match('^(%d+)%d%d%d%d%d%d$') or state:match('^(%-?%d+):') or 0) end
        if units > 0 and (not began or at - began >= window) then state = ('%d:0'):format(number) end
      end
      if units > 0 then run(at, units, CHARGE) else run(at, -units, REFUND, at) end
      return
    end
    local ahead = number - number_of(g, t)
    if shape ~= g.shape or ahead > g.parts then
      arrived = arrived + units
    elseif ahead > -g.kept then
      if not g.dated then
        arrived = arrived + units
      else
        if ahead > 0 then t = start_of(g, number) end
        local at = ahead < 0 and start_of(g, number) or t
        if units < 0 then
          run(t, -units, REFUND, at)
        else
          run(t, units, ahead < 0 and APPLY or CHARGE, at)
        end
      end
    end
  end
  local function book_all(m, last)
    for i = #m.w - 1, 1, -2 do
      local units = m.w[i + 1]
      for j = 1, #last, 2 do
        if last[j] == m.w[i] then units = units - last[j + 1] end
      end
      if units ~= 0 then book(m.shape, m.w[i], units) end
    end
  end
  if g.dated then t = run(now, 0, PEEK) or now end

  local last, emptied, void, ours = nil, false, {}, {}
  for i = 1, #heard, 2 do
    local h = open(heard[i + 1])
    if not h then bad_state() end
    if heard[i] == region then last = h end
    ours[#ours + 1], ours[#ours + 2] = heard[i], h
  end
  if came.reset > own.reset then
    state, value, emptied, t = false, false, true, now
    if own.born > 0 and own.born < came.reset then
      local born = most(most(now, came.reset), own.born + 1)
      own = open(nil)
      own.born = born
    end
    own.reset = came.reset
    book_all(own, {})
    for i = 1, #ours, 2 do
      if ours[i + 1].born < came.reset then
        void[#void + 1] = ours[i]
        if ours[i] == region then last = nil end
      else
        book_all(ours[i + 1], {})
      end
    end
    list(own, member_of(code, key))
  end
  local outcome, new = APPLIED, nil
  last = last or open(nil)
  if came.born > last.born then
    last = open(nil)
    last.born = came.born
  end
  if came.born < own.reset or came.born < last.born or came.taken <= last.taken and came.given <= last.given
    and came.denied <= last.denied then
    outcome = REPEATED
  elseif came.taken < last.taken or came.given < last.given or came.denied < last.denied then
    outcome = SHRUNK
  else
    book_all(came, last.w)
    new = close(came)
  end
  if arrived > 0 then
    run(now, arrived, CHARGE)
  elseif arrived < 0 then
    run(now, -arrived, REFUND)
  else
    run(now, 0, PEEK)
  end
  return outcome, value, close(own), new, void, emptied, needed, remaining, reset
end

return sums
