-- high.lua: high-water marks. Mirrors limiter/highwater.go.
--
-- ARGV[7] is the hash of marks, ARGV[8] cmsgpack of a flat array: the margin (ms), and for each ask that a mark covers
-- the position of its key in KEYS, the name of the mark, and its life (ms). A mark is stored as level, until when it
-- counts, the level after that, and when that ends. What is not one of ours counts as an amount that is not known. The
-- marks of a call are read once, and written by flush, after its requests.

local notes = cmsgpack.unpack(ARGV[8])
local margin, at, marks = notes[1], {}, {}
for i = 2, #notes, 3 do at[notes[i]] = i end

local function read(name, now)
  local v = redis.pcall('HGET', ARGV[7], name)
  local mark = {level = 0, til = 0, later = 0, ends = 0, changed = false}
  if not v then return mark end
  local level, til, later, ends = tostring(v):match('^(%d+):(%d+):(%d+):(%d+)$')
  if not level then
    mark.level, mark.til, mark.changed = MAX, now + LONGEST, true
    return mark
  end
  mark.level, mark.til, mark.later, mark.ends = tonumber(level), tonumber(til), tonumber(later), tonumber(ends)
  return mark
end

-- covers reports whether a mark covers the ask whose key is KEYS[k].
local function covers(k) return at[k] ~= nil end

-- note raises the mark of the ask whose key is KEYS[k]: its bucket holds level, and is reset later.
local function note(k, now, level, reset)
  local i = at[k]
  local name, life = notes[i + 1], notes[i + 2]
  local mark = marks[name]
  if not mark then
    mark = read(name, now)
    marks[name] = mark
  end
  local grain, til = (life - life % 8) / 8 + 1, reset > life and reset or life
  if til > (MAX - 1) / 2 then til = (MAX - 1) / 2 end
  til = til + margin + now
  if life > 0 then til = til + grain - til % grain end
  if til > MAX then til = MAX end
  if mark.til <= now then
    mark.level, mark.til, mark.later, mark.ends, mark.changed = mark.later, mark.ends, 0, 0, true
    if mark.til <= now then mark.level, mark.til = 0, 0 end
  end
  if level >= mark.level then
    if mark.til > til then til = mark.til end
    if mark.ends > til then til = mark.ends end
    if level ~= mark.level or til ~= mark.til or mark.ends ~= 0 then
      mark.level, mark.til, mark.later, mark.ends, mark.changed = level, til, 0, 0, true
    end
    return
  end
  if level > mark.later then mark.later, mark.changed = level, true end
  if til > mark.ends then mark.ends, mark.changed = til, true end
end

local function flush()
  local put = {}
  for name, mark in pairs(marks) do
    if mark.changed then
      put[#put + 1], put[#put + 2] = name, ('%d:%d:%d:%d'):format(mark.level, mark.til, mark.later, mark.ends)
    end
  end
  if #put > 0 then redis.pcall('HSET', ARGV[7], unpack(put)) end
end

return {covers = covers, note = note, flush = flush}
