-- buckets.lua: sliding_window_buckets. Mirrors limiter/buckets.go.
--
-- State: at = last change, the window and number of sub-windows it was written
-- under, packed (see codec.lua); then the sub-windows that hold anything:
--   nothing                                              no sub-window
--   B = c, i7 first index, counts of c bytes             every index from the first
--   B = 8*d + c, i7 first index, pairs                   distance from the first in d
--                                                        bytes, count in c bytes
-- whichever of the last two is shorter. extra is the number of sub-windows.
--
-- Counts are worked on as they stand: entries is a list of counts (step 1), or of
-- distances and counts (step 2); the first is at index first, and those from
-- position from on still count.

local ceil, char, sub, rep = math.ceil, string.char, string.sub, string.rep

-- read returns entries, step and first of what stands in v from position at, or
-- nil if that is none of the forms.
local function read(v, at)
  local mode, body = byte(v, at), #v - at - 7
  if not mode then return {}, 1, 0 end
  local size = mode % 8
  local far = (mode - size) / 8
  if far > 7 or size == 0 or body < far + size or body % (far + size) ~= 0 then return nil end
  local first, step, entries = unpack_bytes('>i7', v, at + 1), far > 0 and 2 or 1, {}
  if size == 1 and far <= 1 and body < 4000 then return {byte(v, at + 8, -1)}, step, first, at + 8 end
  local item, last = (far > 0 and '>I' .. far or '>') .. 'I' .. size, -1
  for from = at + 8, #v, far + size do
    local a, b = unpack_bytes(item, v, from)
    entries[#entries + 1] = a
    if far > 0 then
      if a <= last then return nil end
      entries[#entries + 1], last, a = b, a, b
    end
    if a > MAX then return nil end
  end
  return entries, step, first
end

-- listed makes entries pairs of index and count, from position from on and
-- without those that hold nothing.
local function listed(entries, step, first, from)
  local list, n = {}, 0
  for i = from, #entries, step do
    local units = entries[i + step - 1]
    if units > 0 then
      list[n + 1], list[n + 2] = first + (step == 1 and i - 1 or entries[i]), units
      n = n + 2
    end
  end
  return list
end

local function size_of(n)
  local size = 1
  while n >= 256 do n, size = n / 256, size + 1 end
  return size
end

-- write packs pairs of index and count.
local function write(at, window, n, list)
  local head, count = encode(at, window, n), #list
  if count == 0 then return head end
  local top, first = 0, list[1]
  for i = 2, count, 2 do
    if list[i] > top then top = list[i] end
  end
  local span = list[count - 1] - first + 1
  local size, far, out = size_of(top), size_of(span), {}
  if span * size <= count / 2 * (size + far) then
    local item, next = '>I' .. size, first
    for i = 1, count, 2 do
      out[i] = rep('\0', (list[i] - next) * size)
      out[i + 1] = pack(item, list[i + 1])
      next = list[i] + 1
    end
    return head .. pack('>Bi7', size, first) .. table.concat(out)
  end
  local item = '>I' .. far .. 'I' .. size
  for i = 1, count, 2 do out[#out + 1] = pack(item, list[i] - first, list[i + 1]) end
  return head .. pack('>Bi7', 8 * far + size, first) .. table.concat(out)
end

-- convert re-buckets a state of another window or number of sub-windows: units
-- move to the sub-window that holds the end of their old one, or the last change
-- if that is earlier.
local function convert(list, at, old_window, old_n, window, n)
  local out, m = {}, 0
  for i = 1, #list, 2 do
    local t = ceil((list[i] + 1) * old_window / old_n) - 1
    if t > at then t = at end
    local index = (t * n - t * n % window) / window
    if m > 0 and out[m - 1] == index then
      out[m] = out[m] > MAX - list[i + 1] and MAX or out[m] + list[i + 1]
    else
      out[m + 1], out[m + 2] = index, list[i + 1]
      m = m + 2
    end
  end
  return out
end

return function(v, now, count, window, n, w, _, _, how, booked)
  local entries, step, first, body, t, last, value = {}, 1, 0, nil, now, now, false
  if v then
    local at, scale, parts, after = decode(v, true)
    if not at or scale == 0 or parts == 0 then return nil end
    body = after + 8
    if byte(v, after) == 1 and #v >= body and #v < 4000 then
      first, entries = unpack_bytes('>i7', v, after + 1), {byte(v, body, -1)}
    else
      entries, step, first, body = read(v, after)
      if not entries then return nil end
    end
    if first > MAX or first < -MAX then return nil end
    if scale ~= window or parts ~= n then
      entries = convert(listed(entries, step, first, 1), at, scale, parts, window, n)
      step, first, body = 2, 0, nil
    end
    if at > now then
      if at - now > ceil((n + 1) * window / n) then
        first = first + (now * n - now * n % window) / window - (at * n - at * n % window) / window
        at, body = now, nil
        value = write(at, window, n, listed(entries, step, first, 1))
      end
      t = at
    end
    last = at
  end
  -- t is in sub-window k; of sub-window k-n as much as fade/window still counts.
  local k, from, len = (t * n - t * n % window) / window, 1, #entries
  local oldest, fade = k - n, (k + 1) * window - t * n
  if step == 1 then
    if oldest > first then from = oldest - first + 1 end
    while entries[from] == 0 do from = from + 1 end
  else
    while from < len and first + entries[from] < oldest do from = from + 2 end
  end
  while len >= from and entries[len] == 0 do len = len - step end
  local result = 0
  if (how == REFUND or how == UNDO) and from <= len then
    local list, did = listed(entries, step, first, from), not booked
    local index = booked and (booked * n - booked * n % window) / window
    for i = #list, 2, -2 do
      if result < w and (not booked or list[i - 1] == index) then
        local give = w - result < list[i] and w - result or list[i]
        list[i], result, did = list[i] - give, result + give, true
      end
    end
    if did then
      entries, step, first, from, last = listed(list, 2, 0, 1), 2, 0, 1, t
      len, value = #entries, write(t, window, n, entries)
    end
  end
  if how == APPLY then
    local list, index, at = listed(entries, step, first, from), (booked * n - booked * n % window) / window, 1
    while list[at] and list[at] < index do at = at + 2 end
    if list[at] == index then
      list[at + 1] = list[at + 1] > MAX - w and MAX or list[at + 1] + w
    else
      table.insert(list, at, w)
      table.insert(list, at, index)
    end
    entries, step, first, from, last = listed(list, 2, 0, 1), 2, 0, 1, t
    len, value = #entries, write(t, window, n, entries)
  end
  local held, sum, start, newest = 0, 0, k, nil
  for i = from + step - 1, len, step do
    local units = entries[i]
    if units > 0 then held, sum = held + 1, sum + units end
  end
  local faded = 0
  if held > 0 then
    start = first + (step == 1 and from - 1 or entries[from])
    newest = first + (step == 1 and len - 1 or entries[len - 1])
    if newest > k then return nil end
    if start == oldest then faded = entries[from + step - 1] end
  end
  local full, level = count * window, (sum - faded) * window + faded * fade
  if how ~= REFUND and how ~= UNDO and how ~= APPLY then
    if w > count then
      result = NEVER
    elseif level + w * window > full then
      -- Wait until the newer sub-windows alone leave room, then for as much of
      -- the oldest that remains as must fade.
      local spare, i = count - w, len - step + 1
      while i > from and entries[i + step - 1] <= spare do
        spare, i = spare - entries[i + step - 1], i - step
      end
      local units, gap = entries[i + step - 1], spare * window
      gap = (gap - gap % units) / units
      local index = first + (step == 1 and i - 1 or entries[i])
      result = ceil(((index + n + 1) * window - (gap < window and gap or window)) / n) - now
    end
    if w > 0 and (result == 0 and how ~= PEEK or how == CHARGE) then
      local units, more = w, nil
      if newest == k then units = entries[len] > MAX - w and MAX or entries[len] + w end
      if held == 0 and units < 256 then
        more = pack('>Bi7B', 1, k, units)
      elseif body and held > 0 and units < 256 and n <= 200 then
        -- What stands in v is copied if its form stays the shorter one.
        local kept, gap, others = body + len - 1, k - newest - 1, held
        if newest == k then kept, gap, others = kept - step, 0, held - 1 end
        if k - start + 1 > 2 * (others + 1) then
          if step == 2 and start == first then
            more = pack('>Bi7', 9, start) .. sub(v, body, kept) .. char(k - start, units)
          end
        elseif step == 1 then
          more = pack('>Bi7', 1, start) .. sub(v, body + from - 1, kept) .. rep('\0', gap) .. char(units)
        end
      end
      if more then
        value = encode(t, window, n) .. more
      else
        local list = listed(entries, step, first, from)
        if newest ~= k then list[#list + 1] = k end
        list[newest == k and #list or #list + 1] = units
        value = write(t, window, n, list)
      end
      level, newest, held, last = level + w * window, k, 1, t
    end
  end
  local room = full - (level < MAX and level or MAX)
  local reset = held > 0 and ceil((newest + n + 1) * window / n) - now or 0
  room = room < 0 and -ceil(-room / window) or (room - room % window) / window
  return value, ceil(((last * n - last * n % window) / window + n + 1) * window / n) - now, result, room, reset, nil, t
end
