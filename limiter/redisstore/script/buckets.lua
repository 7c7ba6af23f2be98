-- buckets.lua: sliding_window_buckets. Mirrors limiter/buckets.go.
--
-- State: at = last change, scale = window and prev = number of sub-windows it
-- was written under, and the sub-windows that hold anything, oldest first, as
-- index[i] and units[i], i = 1..n. Stored as a packed state (codec.lua: at,
-- scale, prev), then:
--   nothing                                              no sub-window
--   B = c, i7 first index, counts of c bytes             every index from the first
--   B = 8*d + c, i7 first index, pairs                   distance from the first in d
--                                                        bytes, count in c bytes
-- whichever of the last two is shorter.

local function make_buckets()
  local buckets = {keep = keep_one}

  local PART = 32 -- values moved by one struct call
  local values = {} -- counts on their way, with those of empty sub-windows

  -- forms[size][n] is the struct format of n counts; it lives for one call.
  local forms = {}
  local function form(item, n)
    local of = forms[item]
    if not of then
      of = {}
      forms[item] = of
    end
    local f = of[n]
    if not f then
      f = '>' .. string.rep(item, n)
      of[n] = f
    end
    return f
  end

  -- read_values appends the count values of v from offset at to into.
  local function read_values(v, at, item, size, count, into)
    if count <= 2 then
      into[1], into[2] = unpack_bytes(form(item, count), v, at)
      return
    end
    local done = 0
    while done < count do
      local n = least(PART, count - done)
      local part = {unpack_bytes(form(item, n), v, at)}
      for i = 1, n do into[done + i] = part[i] end
      done, at = done + n, at + n * size
    end
  end

  local function load_entries(s, v, after)
    local mode = byte(v, after)
    if not mode then return end
    local far = floor(mode / 8)
    local size = mode - 8 * far
    local body = #v - after - 7
    if far > 7 or size == 0 or body < far + size then bad_state() end
    local first = unpack_bytes('>i7', v, after + 1)
    if first > MAX or first < -MAX then bad_state() end
    local index, units, n = s.index, s.units, 0
    if far > 0 then
      local pair, item = far + size, '>I' .. far .. 'I' .. size
      local count = body / pair
      if count ~= floor(count) then bad_state() end
      for i = 0, count - 1 do
        local d, u = unpack_bytes(item, v, after + 8 + i * pair)
        n = n + 1
        index[n], units[n] = first + d, u
      end
    else
      local count = body / size
      if count ~= floor(count) then bad_state() end
      read_values(v, after + 8, 'I' .. size, size, count, values)
      for i = 1, count do
        local u = values[i]
        if u > 0 then
          n = n + 1
          index[n], units[n] = first + i - 1, u
        end
      end
    end
    for i = 1, n do
      if units[i] > MAX then bad_state() end
    end
    s.n = n
  end

  function buckets.load(a)
    local s, v = load_string(a)
    s.n = 0
    if not s.index then s.index, s.units = {}, {} end
    if not v then return s end
    local after
    s.at, s.scale, s.prev, after = decode(v, true)
    if s.scale == 0 or s.prev == 0 then bad_state() end
    load_entries(s, v, after)
    return s
  end

  -- dense packs the counts of all sub-windows from the first to the last.
  local function dense(s, size, span)
    local item, first = 'I' .. size, s.index[1]
    for i = 1, span do values[i] = 0 end
    for i = 1, s.n do values[s.index[i] - first + 1] = s.units[i] end
    if span <= PART then return pack(form(item, span), unpack(values, 1, span)) end
    local out = {}
    for from = 1, span, PART do
      local n = least(PART, span - from + 1)
      out[#out + 1] = pack(form(item, n), unpack(values, from, from + n - 1))
    end
    return table.concat(out)
  end

  function buckets.save(a, s, life)
    local v = encode(s.at, s.scale, s.prev)
    if s.n > 0 then
      local top = 0
      for i = 1, s.n do top = most(top, s.units[i]) end
      local size, first = bytes(top), s.index[1]
      local span = s.index[s.n] - first + 1
      local far = bytes(span)
      if span * size <= s.n * (size + far) then
        v = v .. pack('>Bi7', size, first) .. dense(s, size, span)
      else
        local item, out = '>I' .. far .. 'I' .. size, {}
        for i = 1, s.n do out[i] = pack(item, s.index[i] - first, s.units[i]) end
        v = v .. pack('>Bi7', 8 * far + size, first) .. table.concat(out)
      end
    end
    save_string(a, v, life)
  end

  local function index_of(a, t) return fdiv(t * a.buckets, a.window) end

  -- convert re-buckets a state of another window or number of sub-windows:
  -- units move to the sub-window that holds the end of their old one, or the
  -- last change if that is earlier.
  local function convert(a, s)
    if not s.exists or (s.scale == a.window and s.prev == a.buckets) then return end
    local index, units, n = {}, {}, 0
    for i = 1, s.n do
      local j = index_of(a, least(cdiv((s.index[i] + 1) * s.scale, s.prev) - 1, s.at))
      if n > 0 and index[n] == j then
        units[n] = add(units[n], s.units[i])
      else
        n = n + 1
        index[n], units[n] = j, s.units[i]
      end
    end
    s.index, s.units, s.n, s.scale, s.prev = index, units, n, a.window, a.buckets
  end

  -- view returns t, its sub-window k, what is left of sub-window k-n in
  -- 1/window, and the position of the first entry that counts.
  local function view(a, s, now)
    local t = now
    if s.exists then
      convert(a, s)
      if s.at > t then t = s.at end
    end
    local k = index_of(a, t)
    local from = 1
    while from <= s.n and s.index[from] < k - a.buckets do from = from + 1 end
    return t, k, (k + 1) * a.window - t * a.buckets, from
  end

  local function level_of(a, s, k, fade, from)
    local sum, oldest = 0, k - a.buckets
    for i = from, s.n do
      sum = sum + s.units[i] * (s.index[i] == oldest and fade or a.window)
    end
    return sum
  end

  -- gone is the instant from which sub-window j no longer counts.
  local function gone(a, j) return cdiv((j + a.buckets + 1) * a.window, a.buckets) end

  -- drop removes the entries before position from and those without units.
  local function drop(s, from)
    local n = 0
    for i = from, s.n do
      if s.units[i] > 0 then
        n = n + 1
        s.index[n], s.units[n] = s.index[i], s.units[i]
      end
    end
    s.n = n
  end

  function buckets.rebase(a, s, now)
    if s.at - now <= cdiv((a.buckets + 1) * a.window, a.buckets) then return false end
    convert(a, s)
    local by = index_of(a, now) - index_of(a, s.at)
    for i = 1, s.n do s.index[i] = s.index[i] + by end
    s.at = now
    return true
  end

  function buckets.fits(a, s, now, w)
    if w > a.count then return false, NEVER end
    local width, n = a.window, a.buckets
    local _, k, fade, from = view(a, s, now)
    if level_of(a, s, k, fade, from) + w * width <= a.count * width then return true, 0 end
    -- Wait until the newer sub-windows alone leave room, then for as much of
    -- the oldest that remains as must fade. Summed from the newest, so that
    -- the sum stays exact for as long as it matters.
    local spare, rest, i = a.count - w, 0, s.n
    while i > from and rest + s.units[i] <= spare do
      rest = rest + s.units[i]
      i = i - 1
    end
    local gap = least(width, fdiv((spare - rest) * width, s.units[i]))
    return false, cdiv((s.index[i] + n + 1) * width - gap, n) - now
  end

  function buckets.spend(a, s, now, w)
    local t, k, _, from = view(a, s, now)
    s.scale, s.prev = a.window, a.buckets
    drop(s, from)
    local n = s.n
    if n > 0 and s.index[n] == k then
      s.units[n] = add(s.units[n], w)
    else
      s.n, s.index[n + 1], s.units[n + 1] = n + 1, k, w
    end
    s.at = t
    return t
  end

  local function give_back(s, i, w)
    local give = least(w, s.units[i])
    s.units[i] = s.units[i] - give
    return give
  end

  function buckets.refund(a, s, now, at, w)
    local t, _, _, from = view(a, s, now)
    local j = index_of(a, at)
    for i = from, s.n do
      if s.index[i] == j then
        local give = give_back(s, i, w)
        drop(s, from)
        s.at = t
        return give, true
      end
    end
    return 0, false
  end

  function buckets.refund_now(a, s, now, w)
    local t, _, _, from = view(a, s, now)
    if from > s.n then return 0, false end
    local units, i = 0, s.n
    while i >= from and units < w do
      units = units + give_back(s, i, w - units)
      i = i - 1
    end
    drop(s, from)
    s.at = t
    return units, true
  end

  function buckets.figures(a, s, now)
    local _, k, fade, from = view(a, s, now)
    if from > s.n then return a.count, 0 end
    local remaining, full = 0, a.count * a.window
    local lv = level_of(a, s, k, fade, from)
    if lv < full then remaining = fdiv(full - lv, a.window) end
    return remaining, gone(a, s.index[s.n]) - now
  end

  function buckets.expires(a, s)
    convert(a, s)
    return gone(a, index_of(a, s.at))
  end

  return buckets
end
