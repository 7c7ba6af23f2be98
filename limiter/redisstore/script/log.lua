-- log.lua: sliding_window_log. Mirrors limiter/log.go.
--
-- Stored as a list, oldest entry first, with a header as its last element:
--   entry   "d" for one unit at offset+d ms, "d:w" for w units
--   header  "#total:n:offset": the units and the number of the entries before
--           it; total is "x" where it passes 2^53-1 (only charges get there)
-- Small integers cost Redis two to five bytes. A take looks at the header, the
-- newest entry and as many of the oldest as have expired, and never at the
-- rest. Moving all entries in time changes the offset only.
--
-- State in memory: n, total, over (total unknown), offset, newest and
-- newest_w (time and units of the last entry), head_at/head_w (the oldest
-- entries read so far, up to loaded), and the pending change: pops (expired
-- entries to drop on the left), cut (entries to drop on the right), push (an
-- entry to append), edit (a change of one entry in the middle).

local PRUNE = 512 -- expired entries that even a denial clears away

local function parse(e, offset)
  local d, w = tonumber(e), 1
  if not d then
    d, w = string.match(e, '^(%-?%d+):(%d+)$')
    d, w = tonumber(d), tonumber(w)
    if not d then bad_state() end
  end
  if d ~= floor(d) or d > MAX or d < -MAX or w > MAX then bad_state() end
  return d + offset, w
end

local function entry(at, w, offset)
  if w == 1 then return text(at - offset) end
  return string.format('%d:%d', at - offset, w)
end

local function header(s)
  return string.format('#%s:%d:%d', s.over and 'x' or text(s.total), s.n, s.offset)
end

-- open reads the state, or makes an empty one if v is false.
local function open(v, key, count, window)
  local tail = v and call('LRANGE', key, -2, -1) or {}
  -- All fields at once, so that the table need not grow.
  local s = {key = key, count = count, window = window, n = 0, total = 0, offset = 0, newest = 0, newest_w = 0,
    loaded = 0, pops = 0, cut = 0, dead_n = 0, dead_w = 0, head_at = {}, head_w = {},
    over = false, stored = false, limit = false, push = false, edit = false}
  if #tail == 0 then return s end
  local total, n, offset = string.match(tail[2] or '', '^#(%w+):(%d+):(%-?%d+)$')
  if not total then bad_state() end
  s.n, s.offset, s.total, s.over = tonumber(n), tonumber(offset), tonumber(total) or 0, total == 'x'
  s.stored = s.n
  s.newest, s.newest_w = parse(tail[1], s.offset)
  return s
end

-- read makes sure that the oldest i entries are in memory.
local function read(s, i)
  while s.loaded < i do
    local want, from = most(i - s.loaded, least(most(2, s.loaded * 4), 1000)), s.pops + s.loaded
    local got = call('LRANGE', s.key, text(from), text(least(from + want, s.stored) - 1))
    if #got == 0 then bad_state() end
    for j = 1, #got do
      s.head_at[s.loaded + j], s.head_w[s.loaded + j] = parse(got[j], s.offset)
    end
    s.loaded = s.loaded + #got
  end
end

-- expire finds how many entries have expired at t, and their units.
local function expire(s, t)
  local limit = t - s.window
  if s.limit == limit then return end
  s.limit = limit
  if s.n == 0 or s.newest <= limit then
    s.dead_n, s.dead_w = s.n, s.total
    return
  end
  local i, w = 0, 0
  while i < s.n - 1 do
    read(s, i + 1)
    if s.head_at[i + 1] > limit then break end
    i = i + 1
    w = w + s.head_w[i]
  end
  s.dead_n, s.dead_w = i, w
end

-- live is the sum of the entries that count, or a number above MAX.
local function live(s)
  if not s.over then return s.total - s.dead_w end
  if s.dead_n == s.n then return 0 end
  local sum = s.newest_w
  read(s, s.n - 1)
  for i = s.n - 1, s.dead_n + 1, -1 do
    sum = sum + s.head_w[i]
    if sum > MAX then return sum end
  end
  return sum
end

local function at_time(s, now)
  if s.n > 0 and s.newest > now then return s.newest end
  return now
end

-- wait is how long until the entries that remain leave room for w.
local function wait(s, now, w, held)
  local spare = s.count - w
  if s.over then
    local rest, i = s.newest_w, s.n
    if rest > spare then return s.newest + s.window - now end
    while rest + s.head_w[i - 1] <= spare do
      i = i - 1
      rest = rest + s.head_w[i]
    end
    return s.head_at[i - 1] + s.window - now
  end
  local need, i = held - spare, s.dead_n
  while i < s.n - 1 do
    i = i + 1
    read(s, i)
    need = need - s.head_w[i]
    if need <= 0 then return s.head_at[i] + s.window - now end
  end
  return s.newest + s.window - now
end

local function rebase(s, now)
  if s.n == 0 or s.newest - now <= s.window then return false end
  local by = now - s.newest
  s.offset, s.newest = s.offset + by, now
  for i = 1, s.loaded do s.head_at[i] = s.head_at[i] + by end
  return true
end

-- fits returns 0 if w fits, else the wait.
local function fits(s, now, w)
  if w > s.count then return NEVER end
  expire(s, at_time(s, now))
  local held = live(s)
  if held <= s.count - w then return 0 end
  return wait(s, now, w, held)
end

-- prune drops the expired entries. What is read of the rest stays read.
local function prune(s)
  if s.over then
    local sum = live(s)
    s.over = sum > MAX
    s.total = s.over and 0 or sum
  else
    s.total = s.total - s.dead_w
  end
  local n, gone = 0, s.dead_n
  for i = gone + 1, s.loaded do
    n = n + 1
    s.head_at[n], s.head_w[n] = s.head_at[i], s.head_w[i]
  end
  s.pops, s.n, s.loaded, s.dead_n, s.dead_w = s.pops + gone, s.n - gone, n, 0, 0
end

-- tidy drops expired entries at a denial or a peek if there are so many that
-- finding them again each time would cost more than they could be worth.
local function tidy(s)
  if s.dead_n < PRUNE or s.dead_n == s.n then return false end
  prune(s)
  return true
end

local function raise_total(s, by)
  if s.over or by > MAX - s.total then
    s.over, s.total = true, 0
  else
    s.total = s.total + by
  end
end

local function spend(s, now, w)
  local t = at_time(s, now)
  expire(s, t)
  prune(s)
  if s.n > 0 and (s.newest == t or s.n > s.count) then
    -- The second case only a charge can reach. Joining the newest keeps the
    -- log bounded and forgets nothing early.
    local sum = s.newest_w > MAX - w and MAX or s.newest_w + w
    raise_total(s, sum - s.newest_w)
    s.cut, s.newest_w = 1, sum
  else
    if s.n == 0 then s.offset = t end
    raise_total(s, w)
    s.n, s.newest_w = s.n + 1, w
  end
  s.newest, s.push = t, true
  return t
end

-- pop drops the newest entry of a state that this request has not spent into.
local function pop(s, depth)
  s.n, s.cut = s.n - 1, s.cut + 1
  if s.n == 0 then return end
  local e = call('LRANGE', s.key, -2 - depth, -2 - depth)[1]
  if not e then bad_state() end
  s.newest, s.newest_w = parse(e, s.offset)
end

local function lower_total(s, by)
  s.limit = false
  if s.over then return end
  s.total = s.total - by
end

-- take_newest gives back up to w units of the newest entry.
local function take_newest(s, w)
  local give = least(w, s.newest_w)
  lower_total(s, give)
  if give == s.newest_w then
    pop(s, s.cut + 1)
    return give
  end
  s.newest_w = s.newest_w - give
  s.cut, s.push = s.cut + 1, true
  return give
end

-- patch applies the change of an inner entry to what is in memory, which only
-- a recount (an unknown total) looks at again.
local function patch(s, at, left)
  if not s.over then return end
  read(s, s.stored)
  for i = 1, s.loaded do
    if s.head_at[i] == at then
      s.head_w[i] = left
      if left == 0 then
        table.remove(s.head_at, i)
        table.remove(s.head_w, i)
        s.loaded = s.loaded - 1
      end
      return
    end
  end
end

-- take_inner gives back up to w units of the entry booked at time at.
local function take_inner(s, at, w)
  local from = -3
  while true do
    local part = call('LRANGE', s.key, from - 99, from)
    for i = #part, 1, -1 do
      local e_at, e_w = parse(part[i], s.offset)
      if e_at < at then return 0, false end
      if e_at == at then
        local give = least(w, e_w)
        lower_total(s, give)
        patch(s, at, e_w - give)
        s.edit = {old = part[i], at = from - (#part - i)}
        if give == e_w then
          s.n = s.n - 1
        else
          s.edit.new = entry(at, e_w - give, s.offset)
        end
        return give, true
      end
    end
    if #part < 100 then return 0, false end
    from = from - 100
  end
end

local function refund(s, now, at, w)
  if s.n == 0 or at + s.window <= at_time(s, now) then return 0, false end
  if s.newest == at then return take_newest(s, w), true end
  return take_inner(s, at, w)
end

local function refund_now(s, now, w)
  local units, did = 0, false
  while s.n > 0 and s.newest + s.window > at_time(s, now) and units < w do
    units = units + take_newest(s, w - units)
    did = true
  end
  return units, did
end

local function figures(s, now)
  expire(s, at_time(s, now))
  if s.dead_n == s.n then return s.count, 0 end
  return most(0, s.count - live(s)), s.newest + s.window - now
end

local function save(s, life)
  if s.n == 0 then
    call('DEL', s.key)
    return
  end
  if s.edit then
    if s.edit.new then
      call('LSET', s.key, s.edit.at, s.edit.new)
    else
      call('LREM', s.key, -1, s.edit.old)
    end
  end
  if s.stored then call('LTRIM', s.key, text(s.pops), text(-2 - s.cut)) end
  if s.push then
    call('RPUSH', s.key, entry(s.newest, s.newest_w, s.offset), header(s))
  else
    call('RPUSH', s.key, header(s))
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
  local value = (changed or did or tidy(s)) and function(life) save(s, life) end
  return value, needed, result, remaining, reset, nil, booked_at
end
