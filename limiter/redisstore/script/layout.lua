-- layout.lua: the stored form of sums. sums.lua uses it; spans.lua, export.lua and confirm.lua read and write the
-- beginning of it themselves.
--
-- Sums are one string of two parts. In the bucket's value the state stands between them, so that one pack writes all
-- that the commonest take changes. Of a log, whose state is a list, they stand alone at a key of their own (":t" behind
-- the bucket's name), as do those of other regions (":h").
--   hot, SUMS_HOT bytes:
--     mark    3 bytes, big-endian: SUMS_UNLISTED, or SUMS_LISTED if the bucket is in the set of changed ones, plus the
--             size of the rest, at most 65,535. The first byte is HEAD_UNLISTED or HEAD_LISTED, as of no state.
--     share   3 bytes, little-endian: the guard's, plus LEAD if the region leads; 0 for none
--     number  a double, little-endian: that of the newest window, NO_WINDOW for none
--     untold  a double, little-endian: the units of the newest window that the others have not heard of
--   rest:
--     shape   7 bytes, big-endian
--     born    7 bytes, big-endian
--     reset   7 bytes, big-endian
--     told    a double, little-endian: the units of the newest window without untold
--     cmsgpack of a flat array: given, denied, what was taken less the units of the newest window, and for each window
--             that is over, newest first, how long before the newest, and its units
--     of a bucket that drains, once a take was held to its part: cmsgpack of a text, the count and the extra of the
--             limit of a recent one as doubles, little-endian (limiter.Sums.Count)
-- The commonest take (the window is that of the take before it) changes the mark and untold alone, export.lua the mark,
-- and confirm.lua share, untold and told, in place. Doubles cost the least to read and to write.
--
-- In memory sums are a table: the fields, in limit the last one as it is stored, and in w the windows, newest first:
-- number, units, number, units ...

-- split returns the state in what is stored of a bucket, false for none, and its sums; or nil if it is none of ours.
local function split(v)
  local n = #v
  if n < SUMS_HOT then return nil end
  local head, size = struct.unpack('>BI2', v)
  if head ~= HEAD_UNLISTED and head ~= HEAD_LISTED or SUMS_HOT + size > n then return nil end
  return SUMS_HOT + size < n and v:sub(SUMS_HOT + 1, n - size), v:sub(1, SUMS_HOT) .. v:sub(n - size + 1)
end

-- join puts sums around a state, false for none.
local function join(state, s)
  if not state then return s end
  return s:sub(1, SUMS_HOT) .. state .. s:sub(SUMS_HOT + 1)
end

-- open reads sums, or makes empty ones. It returns nil if s is none of ours.
local function open(s)
  local m = {born = 0, reset = 0, given = 0, shape = 0, denied = 0, taken = 0, share = 0, told = 0, listed = 0, w = {},
    limit = ''}
  if not s then return m end
  if #s < SUMS_HOT + 30 then return nil end
  local mark, share, number, untold, shape, born, reset, told = struct.unpack('>I3<I3dd>I7I7I7<d', s)
  local ok, rest, limit = pcall(cmsgpack.unpack, s:sub(SUMS_HOT + 30))
  if not ok or type(rest) ~= 'table' or #rest < 3 or #rest % 2 ~= 1 then return nil end
  local size, units = #rest, told + untold
  rest[size + 1], rest[size + 2], rest[size + 3] = told, number, units
  for i = 1, size + 3 do
    local x = rest[i]
    if type(x) ~= 'number' or x % 1 ~= 0 or x > MAX or x < -MAX then return nil end
  end
  if limit then m.limit = s:sub(-17) end
  m.given, m.denied, m.taken = rest[1], rest[2], rest[3]
  m.share, m.told, m.shape, m.born, m.reset, m.listed = share, told, shape, born, reset, mark >= SUMS_LISTED and 1 or 0
  if number ~= NO_WINDOW then
    m.taken, m.w[1], m.w[2] = m.taken + units, number, units
  end
  for i = 4, size, 2 do m.w[i - 1], m.w[i] = number - rest[i], rest[i + 1] end
  return m
end

-- reset_of returns when the bucket was last reset, as sums say, 0 for none.
local function reset_of(s)
  if not s then return 0 end
  if #s < SUMS_HOT + 30 then return nil end
  return (struct.unpack('>I7', s, SUMS_HOT + 15))
end

local function close(m)
  local w = m.w
  local number, units = w[1] or NO_WINDOW, w[2] or 0
  local rest = {m.given, m.denied, m.taken - units}
  for i = 3, #w, 2 do rest[i + 1], rest[i + 2] = number - w[i], w[i + 1] end
  rest = cmsgpack.pack(rest) .. m.limit
  return struct.pack('>I3<I3dd>I7I7I7<d', (m.listed == 1 and SUMS_LISTED or SUMS_UNLISTED) + 29 + #rest, m.share,
    number, units - m.told, m.shape, m.born, m.reset, m.told) .. rest
end
