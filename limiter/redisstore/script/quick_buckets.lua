-- quick_buckets.lua: sliding_window_buckets in one step, as quick.lua describes.
-- Mirrors buckets.lua for counts and distances that fit a byte. What follows the
-- packed state then is one of
--   1, i7 first index, counts      and      9, i7 first index, pairs
-- and is changed as it stands where that is possible.

-- with_last returns the stored form when the last entry, of sub-window k, holds
-- units. The entries of v before it count from position from on, where index
-- start is; the first is at index first, the last, if any, at newest.
local function with_last(v, body, entries, step, first, from, start, newest, held, k, units)
  if units > 255 then return nil end
  if held == 0 then return pack('>Bi7B', 1, k, units) end
  local kept, gap = #v, k - newest - 1
  if newest == k then kept, held, gap = kept - step, held - 1, 0 end
  local head = 1
  if k - start + 1 > 2 * (held + 1) then head = 9 end
  if head == 1 and step == 1 then
    v = sub(v, body + from - 1, kept) .. string.rep('\0', gap)
  elseif head == 9 and step == 2 and start == first then
    v = sub(v, body, kept) .. string.char(k - start)
  elseif head == 9 then
    local list, j = {}, 0
    for i = from, kept - body + 1, step do
      if entries[i + step - 1] > 0 then
        list[j + 1], list[j + 2] = first - start + (step == 1 and i - 1 or entries[i]), entries[i + step - 1]
        j = j + 2
      end
    end
    list[j + 1] = k - start
    v = string.char(unpack(list))
  else
    return nil
  end
  return pack('>Bi7', head, start) .. v .. string.char(units)
end

local function sub_windows(v, now, count, window, n, w)
  local k = (now * n - now * n % window) / window
  local oldest, fade, last = k - n, (k + 1) * window - now * n, now
  local entries, body, step, first, newest, from, held, sum, faded = nil, 1, 1, k, -1, 1, 0, 0, 0
  if v then
    local scale, parts
    last, scale, parts, body = decode(v, true)
    if last > now or scale ~= window or parts ~= n or n > 200 then return nil end
    body = body + 8
    if #v >= body then
      local mode
      mode, first = unpack_bytes('>Bi7', v, body - 8)
      entries = {byte(v, body, body + 2 * n + 2)}
      local len = #entries
      if mode == 9 then step = 2 elseif mode ~= 1 then return nil end
      newest = first + (step == 1 and len - 1 or entries[len - 1] or 0)
      if len ~= #v - body + 1 or len % step ~= 0 or entries[len] == 0 or first < 0 or newest > k then return nil end
      if step == 1 then
        if oldest > first then from = oldest - first + 1 end
        while entries[from] == 0 do from = from + 1 end
        for i = from, len do
          local units = entries[i]
          if units > 0 then held, sum = held + 1, sum + units end
        end
      else
        while from < len and first + entries[from] < oldest do from = from + 2 end
        for i = from, len, 2 do
          if entries[i + 1] == 0 or i > from and entries[i] <= entries[i - 2] then return nil end
          held, sum = held + 1, sum + entries[i + 1]
        end
      end
    elseif #v >= body - 8 then
      return nil
    end
  end
  local start = k
  if held > 0 then
    start = first + (step == 1 and from - 1 or entries[from])
    if start == oldest then faded = entries[from + step - 1] end
  end
  local full, level, value, retry = count * window, (sum - faded) * window + faded * fade, false, 0
  if w > count then
    retry = NEVER
  elseif level + w * window > full then
    -- Wait until the newer sub-windows alone leave room, then for as much of
    -- the oldest that remains as must fade.
    local spare, i = count - w, #entries - step + 1
    while i > from and entries[i + step - 1] <= spare do
      spare, i = spare - entries[i + step - 1], i - step
    end
    local units, gap = entries[i + step - 1], spare * window
    gap = (gap - gap % units) / units
    local index = first + (step == 1 and i - 1 or entries[i])
    retry = ceil(((index + n + 1) * window - gap) / n) - now
  elseif w > 0 then
    local more = with_last(v, body, entries, step, first, from, start, newest, held, k,
      newest == k and entries[#entries] + w or w)
    if not more then return nil end
    value, level, newest, held = encode(now, window, n) .. more, level + w * window, k, 1
  end
  local room = level < full and full - level or 0
  local reset = held > 0 and ceil((newest + n + 1) * window / n) - now or 0
  local of = (last * n - last * n % window) / window
  return value, value and reset or ceil((of + n + 1) * window / n) - now, retry,
    (room - room % window) / window, reset
end

quicks[4] = sub_windows
