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
-- State in memory: exists, n, total, over (total unknown), offset, newest and
-- newest_w (time and units of the last entry), head_at/head_w (the oldest
-- entries read so far, up to loaded), and the pending change: pops (expired
-- entries to drop on the left), cut (entries to drop on the right), push (an
-- entry to append), edit (a change of one entry in the middle).

local function make_log()
  local log = {keep = keep_one}

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
    return fmt('%d:%d', at - offset, w)
  end

  local function header(s)
    return fmt('#%s:%d:%d', s.over and 'x' or text(s.total), s.n, s.offset)
  end

  function log.load(a)
    local s = {exists = false, at = 0, n = 0, total = 0, offset = 0, newest = 0, newest_w = 0,
      loaded = 0, pops = 0, cut = 0, dead_n = 0, dead_w = 0, head_at = {}, head_w = {},
      over = false, stored = false, limit = false, push = false, edit = false} -- so that it need not grow
    local tail = call('LRANGE', a.key, -2, -1)
    if #tail == 0 then return s end
    local total, n, offset = string.match(tail[2] or '', '^#(%w+):(%d+):(%-?%d+)$')
    if not total then bad_state() end
    s.exists, s.n, s.offset = true, tonumber(n), tonumber(offset)
    s.total, s.over = tonumber(total) or 0, total == 'x'
    s.stored = s.n
    s.newest, s.newest_w = parse(tail[1], s.offset)
    return s
  end

  -- read makes sure that the oldest i entries are in memory.
  local function read(a, s, i)
    while s.loaded < i do
      local want, from = most(i - s.loaded, least(most(2, s.loaded * 4), 1000)), s.pops + s.loaded
      local got = call('LRANGE', a.key, text(from), text(least(from + want, s.stored) - 1))
      if #got == 0 then bad_state() end
      for j = 1, #got do
        s.head_at[s.loaded + j], s.head_w[s.loaded + j] = parse(got[j], s.offset)
      end
      s.loaded = s.loaded + #got
    end
  end

  -- settle finds how many entries have expired at t, and their units.
  local function settle(a, s, t)
    local limit = t - a.window
    if s.limit == limit then return end
    s.limit = limit
    if s.n == 0 or s.newest <= limit then
      s.dead_n, s.dead_w = s.n, s.total
      return
    end
    local i, w = 0, 0
    while i < s.n - 1 do
      read(a, s, i + 1)
      if s.head_at[i + 1] > limit then break end
      i = i + 1
      w = w + s.head_w[i]
    end
    s.dead_n, s.dead_w = i, w
  end

  -- live is the sum of the entries that count, or a number above MAX.
  local function live(a, s)
    if not s.over then return s.total - s.dead_w end
    if s.dead_n == s.n then return 0 end
    local sum = s.newest_w
    read(a, s, s.n - 1)
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
  local function wait(a, s, now, w, held)
    local spare = a.count - w
    if s.over then
      local rest, i = s.newest_w, s.n
      if rest > spare then return s.newest + a.window - now end
      while rest + s.head_w[i - 1] <= spare do
        i = i - 1
        rest = rest + s.head_w[i]
      end
      return s.head_at[i - 1] + a.window - now
    end
    local need, i = held - spare, s.dead_n
    while i < s.n - 1 do
      i = i + 1
      read(a, s, i)
      need = need - s.head_w[i]
      if need <= 0 then return s.head_at[i] + a.window - now end
    end
    return s.newest + a.window - now
  end

  function log.rebase(a, s, now)
    if s.n == 0 or s.newest - now <= a.window then return false end
    local by = now - s.newest
    s.offset, s.newest = s.offset + by, now
    for i = 1, s.loaded do s.head_at[i] = s.head_at[i] + by end
    return true
  end

  function log.fits(a, s, now, w)
    if w > a.count then return false, NEVER end
    settle(a, s, at_time(s, now))
    local held = live(a, s)
    if held <= a.count - w then return true, 0 end
    return false, wait(a, s, now, w, held)
  end

  -- prune drops the expired entries. What is read of the rest stays read.
  local function prune(a, s)
    if s.over then
      local sum = live(a, s)
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
  function log.tidy(a, s)
    if s.dead_n < PRUNE or s.dead_n == s.n then return false end
    prune(a, s)
    return true
  end

  local function raise_total(s, by)
    if s.over or by > MAX - s.total then
      s.over, s.total = true, 0
    else
      s.total = s.total + by
    end
  end

  function log.spend(a, s, now, w)
    local t = at_time(s, now)
    settle(a, s, t)
    prune(a, s)
    if s.n > 0 and (s.newest == t or s.n > a.count) then
      -- The second case only a charge can reach. Joining the newest keeps the
      -- log bounded and forgets nothing early.
      local sum = add(s.newest_w, w)
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
  local function pop(a, s, depth)
    s.n, s.cut = s.n - 1, s.cut + 1
    if s.n == 0 then return end
    local e = call('LRANGE', a.key, -2 - depth, -2 - depth)[1]
    if not e then bad_state() end
    s.newest, s.newest_w = parse(e, s.offset)
  end

  local function lower_total(a, s, by)
    s.limit = false
    if s.over then return end
    s.total = s.total - by
  end

  -- take_newest gives back up to w units of the newest entry.
  local function take_newest(a, s, w)
    local give = least(w, s.newest_w)
    lower_total(a, s, give)
    if give == s.newest_w then
      pop(a, s, s.cut + 1)
      return give
    end
    s.newest_w = s.newest_w - give
    s.cut, s.push = s.cut + 1, true
    return give
  end

  -- patch applies the change of an inner entry to what is in memory, which only
  -- a recount (an unknown total) looks at again.
  local function patch(a, s, at, left)
    if not s.over then return end
    read(a, s, s.stored)
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
  local function take_inner(a, s, at, w)
    local from = -3
    while true do
      local part = call('LRANGE', a.key, from - 99, from)
      for i = #part, 1, -1 do
        local e_at, e_w = parse(part[i], s.offset)
        if e_at < at then return 0, false end
        if e_at == at then
          local give = least(w, e_w)
          lower_total(a, s, give)
          patch(a, s, at, e_w - give)
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

  function log.refund(a, s, now, at, w)
    if s.n == 0 or at + a.window <= at_time(s, now) then return 0, false end
    if s.newest == at then return take_newest(a, s, w), true end
    return take_inner(a, s, at, w)
  end

  function log.refund_now(a, s, now, w)
    local units, did = 0, false
    while s.n > 0 and s.newest + a.window > at_time(s, now) and units < w do
      units = units + take_newest(a, s, w - units)
      did = true
    end
    return units, did
  end

  function log.figures(a, s, now)
    settle(a, s, at_time(s, now))
    if s.dead_n == s.n then return a.count, 0 end
    return most(0, a.count - live(a, s)), s.newest + a.window - now
  end

  function log.expires(a, s) return s.newest + a.window end

  function log.save(a, s, life)
    if s.n == 0 then
      call('DEL', a.key)
      return
    end
    if s.edit then
      if s.edit.new then
        call('LSET', a.key, s.edit.at, s.edit.new)
      else
        call('LREM', a.key, -1, s.edit.old)
      end
    end
    if s.stored then call('LTRIM', a.key, text(s.pops), text(-2 - s.cut)) end
    if s.push then
      call('RPUSH', a.key, entry(s.newest, s.newest_w, s.offset), header(s))
    else
      call('RPUSH', a.key, header(s))
    end
    call('PEXPIRE', a.key, life)
  end

  return log
end
