-- sums.lua: what a region has spent in a bucket whose limit spans regions (layout.lua describes it), and the kernels of
-- such limits for all but the commonest takes. Mirrors limiter/sums.go, limiter/guard.go and limiter/apply.go.
--
-- What was applied from other regions is a hash (":h" behind the bucket's name): by region, its sums.

local sub, ceil = string.sub, math.ceil

local sums = {join = join}

-- grid_of says how the windows of a limit are numbered, in sums of a shape; 0 for none. Of a bucket that drains they
-- are those of the longest period of its limits (limiter.Sums.grid).
local function grid_of(code, count, window, extra, shape)
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
  if DRAINS(code) and shape > g.shape then g.length, g.shape = (shape - shape % SHAPES) / SHAPES, shape end
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
    if ago > 0 or m.taken > MAX / 2 then begin(m, g, now) end
  end
  local w = {number, 0}
  for i = 1, #m.w, 2 do
    if not g.first_hit and number - m.w[i] < g.kept then w[#w + 1], w[#w + 2] = m.w[i], m.w[i + 1] end
  end
  m.w, m.told = w, 0
end

-- set_of_changed is the set of changed buckets. While a slot of a cluster arrives at this server, its set may be yet to
-- come, and the server that sends it refuses to replace one; then it is another set, which export.lua empties. The
-- arrival shows in that Redis refuses commands of several keys of which one is missing.
local function set_of_changed()
  local set = ARGV[2]
  if set:find('{', 1, true) and try('EXISTS', set) == 0 and type(try('EXISTS', set, set .. ':in')) ~= 'number' then
    return set .. ':in'
  end
  return set
end

-- list puts the bucket into the set of changed ones, once. Where that is refused (a slot that leaves, and has no such
-- set here), the next change tries again.
local function list(m, member)
  if m.listed == 0 and type(try('SADD', set_of_changed(), member)) == 'number' then m.listed = 1 end
end

-- worth mirrors limiter.Sums.Worth.
local function worth(m, code, capacity)
  local units, parts = 0, tonumber(ARGV[5])
  for i = 2, #m.w, 2 do units = units + m.w[i] end
  if code == FIRST_HIT then capacity = 0 end
  return m.reset > 0 or m.given > 0 or m.denied > 0 or parts == 0 or units > capacity / parts
end

-- member_of is what stands for a bucket in the set of changed ones: the key that holds its sums.
local function member_of(code, key) return LIST(code) and key .. ':t' or key end

-- read_beside reads what stands at a key of its own beside a bucket: the sums of a list, or what was heard. While the
-- slot of a cluster moves it may be at the other server. Where the slot leaves, Redis refuses to read it; where it
-- arrives it is missing. Neither may be taken for nothing.
local function read_beside(key, command, other)
  local found = try(command, other)
  local failed = type(found) == 'table' and found.err
  if (failed or not found or #found == 0) and ARGV[2]:find('{', 1, true)
    and type(try('EXISTS', key, other)) ~= 'number' then
    error({err = 'TRYAGAIN the slot is on its way to another server'}, 0)
  end
  if failed then error(found, 0) end
  return found
end

-- parts returns the state and the sums in what is stored of a bucket.
local function parts(code, key, v)
  local of_list = LIST(code) and v
  if LIST(code) then v = read_beside(key, 'GET', member_of(code, key)) end
  if not v then return of_list or false, nil end
  local state, s = split(v)
  if state == nil then bad_state() end
  return of_list or state, s
end

-- read returns what is stored of a bucket, its state and its sums.
function sums.read(code, key)
  local v = LIST(code) or call('GET', key)
  return v, parts(code, key, v)
end

-- held_back decides whether a take is to be held back of which mine exceeds the part, not rounded, of what is left.
-- What others have drained does not count. It returns nil, or what would pass.
local function held_back(share, left, mine, w, capacity)
  local spent = capacity - left
  if mine > spent then mine = spent end
  local part = share * (left + mine) / FULL_SHARE
  if share >= LEAD then part = ceil((share - LEAD) * (left + mine) / FULL_SHARE) else part = part - part % 1 end
  if mine <= part then return nil end
  return part + w > mine and part - (mine - w) or 0
end

-- lasts is for how long a value is kept whose state counts for needed ms, with sums, nil for none. Later takes of the
-- present window keep it no longer (KEEP_LIFE in spans.lua): a window ends when it ends, and what they add drains
-- within a period.
local function lasts(code, count, window, extra, needed, s)
  if DRAINS(code) then
    local shape = s and struct.unpack('>I7', s, SUMS_HOT + 1) or 0
    needed = most(needed, 2 * grid_of(code, count, window, extra, shape).length)
  end
  return most(needed, SUMS_MARGIN)
end
sums.lasts = lasts

-- hold counts a take of w units that the guard holds back as denied, in Redis. It returns what a kernel does but for
-- the result: value, needed, reset, and the sums.
local function hold(kernel, code, state, m, now, count, window, extra, w, key)
  local value, needed, _, _, reset = kernel(state, now, count, window, extra, w, code, key, PEEK)
  if m.born == 0 then m.born = most(most(now, 1), m.reset) end
  m.denied = m.denied > MAX - w and MAX or m.denied + w
  local member = member_of(code, key)
  list(m, member)
  local s = close(m)
  if LIST(code) then
    save(member, false, s, lasts(code, count, window, extra, needed, s))
  else
    save(key, false, join(value or state, s), lasts(code, count, window, extra, needed, s))
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
local function refund(kernel, code, state, s, now, count, window, extra, w, key, how, booked, base, member)
  local m = open(s) or bad_state()
  local g = grid_of(code, count, window, extra, m.shape)
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
local function reset_sums(s, now, heard, member)
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

-- life is for how long, ms, what was applied is remembered of sums of a shape.
function sums.life(code, count, window, extra, shape)
  local g = grid_of(code, count, window, extra, shape)
  return least(ceil((g.kept + 1) * g.length / g.parts) + SUMS_MARGIN, LONGEST)
end

-- decide is the kernel of a limit that spans regions (spans.lua) in full. mode is how takes are held back, and cold the
-- share until the others have heard of the region.
function sums.decide(code, mode, cold, v, now, count, window, extra, w, key, how, booked, base, id, side)
  kernels[code] = kernels[code] or make(code)
  local kernel, member, state, s = kernels[code], member_of(code, key), parts(code, key, v)
  local value, needed, result, remaining, reset, delay, at, before
  if how == REFUND or how == UNDO then
    value, needed, result, remaining, reset, s =
      refund(kernel, code, state, s, now, count, window, extra, w, key, how, booked, base, member)
  elseif how == RESET then
    value, needed, result, remaining, reset = kernel(false, now, count, window, extra, 0, code, key, PEEK)
    s = reset_sums(s, now, read_beside(key, 'HGETALL', key .. ':h'), member)
    value, needed = '', sums.life(code, count, window, extra, 0)
  else
    value, needed, result, remaining, reset, delay, at, before =
      kernel(state, now, count, window, extra, w, code, key, how, booked, base, id, side)
    if value == nil then return nil end
    if w > 0 and (result == 0 or how == CHARGE) then
      local m, passes = open(s) or bad_state(), nil
      local g = grid_of(code, count, window, extra, m.shape)
      -- The number of the window in which the kernel books it.
      local number
      if g.first_hit then
        number = (how ~= PEEK or reset > 0) and now + reset - window
      else
        number = number_of(g, g.dated and at or now)
      end
      if mode > 0 and how ~= CHARGE then
        local left, mine = how == PEEK and remaining - w or remaining, w
        if number == m.w[1] then mine = w + most(m.w[2] - m.told, 0) end
        passes = held_back(m.share > 0 and m.share or cold, left, mine, w, DRAINS(code) and extra or count)
      end
      if passes then
        if how ~= PEEK then
          value, needed, reset, s = hold(kernel, code, state, m, now, count, window, extra, w, key)
        end
        result, delay, remaining = tonumber(ARGV[4]), HELD - passes, how == PEEK and remaining or remaining + w
      elseif how ~= PEEK then
        follow(m, g, number, now)
        if m.taken > MAX - w then
          begin(m, g, now)
          m.w = {number, 0}
        end
        m.taken, m.w[2] = m.taken + w, m.w[2] + w
        if mode > 0 and DRAINS(code) then m.limit = '\176' .. struct.pack('<dd', count, extra) end
        if worth(m, code, DRAINS(code) and extra or count) then list(m, member) end
        s = close(m)
      end
    end
  end
  if value and not LIST(code) then
    if s then value = join(value ~= '' and value, s) end
  elseif value then
    local write = value
    value = function(life)
      if write == '' then call('DEL', key) else write(life) end
      if s then call('SET', member, s, 'PX', life) end
    end
  end
  return value, lasts(code, count, window, extra, needed, s), result, remaining, reset, delay, at, before
end

-- resume makes the sums m of this region go on from came, of which they have before already (limiter.Sums.resume). It
-- returns whether it did.
local function resume(m, g, came, before)
  if m.taken > 0 and m.shape ~= came.shape or m.taken > MAX - came.taken then return false end
  local numbers, units = {}, {}
  local function add(w, sign)
    for i = 1, #w, 2 do
      if not units[w[i]] then
        numbers[#numbers + 1] = w[i]
        units[w[i]] = 0
      end
      units[w[i]] = units[w[i]] + sign * w[i + 1]
    end
  end
  add(m.w, 1)
  add(came.w, 1)
  add(before.w, -1)
  table.sort(numbers, function(a, b) return a > b end)
  m.born, m.shape, m.taken = came.born, came.shape, most(0, m.taken + came.taken - before.taken)
  m.given, m.denied = most(0, m.given + came.given - before.given), m.denied + came.denied - before.denied
  m.denied = least(most(0, m.denied), MAX)
  if m.limit == '' then m.limit = open(came.stored).limit end
  m.w = {}
  for i = 1, #numbers do
    local n = numbers[i]
    if units[n] > 0 and (not m.w[1] or g.first_hit or m.w[1] - n < g.kept) then
      m.w[#m.w + 1], m.w[#m.w + 2] = n, units[n]
    end
  end
  if m.w[1] and m.w[1] == came.w[1] and came.w[2] <= MOST_TOLD then m.told = came.w[2] end
  return true
end

-- apply books in a bucket what a region has spent since what was last applied from it (in the hash heard; came is its
-- sums as a table, with their stored form). Of region '' it is what this region itself had spent before Redis lost its
-- data, and its sums go on from there. It changes nothing in Redis but the set of changed buckets. It returns
--   outcome   APPLIED, REPEATED or SHRUNK
--   value     of the bucket, false if it does not change
--   s         its sums
--   void      the regions of which nothing is to be remembered
--   emptied   whether a reset has emptied the bucket
--   needed, remaining, reset   as of a kernel
--   ended     whether that has made void what this region spent
function sums.apply(kernel, code, state, s, now, count, window, extra, key, region, came, heard)
  local since, g = reset_of(s), grid_of(code, count, window, extra, 0)
  if not since then bad_state() end
  local value, needed, remaining, reset, arrived, t, told = false, 0, 0, 0, 0, now, nil
  local function run(at, w, how, booked)
    local changed, need, _, remains, resets, _, booked_at = kernel(state, at, count, window, extra, w, code, key, how,
      booked)
    if changed == nil then bad_state() end
    if changed then value = changed end
    if changed and not LIST(code) then state = changed ~= '' and changed end
    needed, remaining, reset, told = need, remains, resets, at
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
  local function book_arrived()
    if arrived > 0 then run(now, least(arrived, MAX), CHARGE) elseif arrived < 0 then run(now, -arrived, REFUND) end
    arrived = 0
  end
  local function book_all(m, last)
    for i = #m.w - 1, 1, -2 do
      local units = m.w[i + 1]
      for j = 1, #last, 2 do
        if last[j] == m.w[i] then units = units - last[j + 1] end
      end
      if units ~= 0 then book(m.shape, m.w[i], units) end
    end
    if not LIST(code) then book_arrived() end -- a kernel of a list runs once
  end
  if g.dated then t = run(now, 0, PEEK) or now end

  local last, emptied, ended, void = nil, false, false, {}
  if came.reset > since then
    local own, all, ours = open(s), call('HGETALL', heard), {}
    if not own then bad_state() end
    for i = 1, #all, 2 do
      local h = open(all[i + 1])
      if not h then bad_state() end
      if all[i] == region then last = h end
      ours[#ours + 1], ours[#ours + 2] = all[i], h
    end
    state, value, emptied, t, told, since = false, false, true, now, nil, came.reset
    if own.born > 0 and own.born < came.reset then
      local born = most(most(now, came.reset), own.born + 1)
      own, ended = open(nil), true
      own.born = born
    end
    own.reset = came.reset
    book_all(own, {})
    for i = 1, #ours, 2 do
      if ours[i + 1].born < came.reset then
        void[#void + 1] = ours[i]
        if ours[i] == region then last = nil end
      elseif ours[i] ~= '' then -- own has that one
        book_all(ours[i + 1], {})
      end
    end
    list(own, member_of(code, key))
    s = close(own)
  else
    local h = call('HGET', heard, region)
    if h then
      last = open(h)
      if not last then bad_state() end
    end
  end
  local outcome, own = APPLIED, region == '' and (open(s) or bad_state())
  if own and not last and own.born == came.born then last = own end -- it was not lost, or its last writes alone were
  last = last or open(nil)
  local before = last
  if came.born > last.born then
    last = open(nil)
    last.born = came.born
  end
  if came.born < since or came.born < last.born or came.taken <= last.taken and came.given <= last.given
    and came.denied <= last.denied then
    outcome = REPEATED
  elseif came.taken < last.taken
    or came.taken == last.taken and (came.given < last.given or came.denied < last.denied) then
    outcome = SHRUNK
  else
    book_all(came, last.w)
    if own and resume(own, grid_of(code, count, window, extra, came.shape), came, before) then
      if worth(own, code, DRAINS(code) and extra or count) then list(own, member_of(code, key)) end
      s = close(own)
    end
  end
  book_arrived()
  if told ~= now then run(now, 0, PEEK) end
  return outcome, value, s or close(open(nil)), void, emptied, needed, remaining, reset, ended
end

return sums
