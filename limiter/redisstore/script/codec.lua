-- codec.lua: the stored form of states that are one small string, and for how
-- long states are kept.
--
-- A packed state is a header byte, a time and two amounts, big-endian:
--   header  128*minutes + 64*wide + 8*bytes(b) + bytes(a), each of the two 1..7;
--           minutes: b, usually a window, is in units of 60,000
--   time    5 bytes, signed ms from EPOCH; 7 bytes, signed ms from 1970 if wide
--   a, b    unsigned, as many bytes as the header says
-- A common state is 8 to 12 bytes long, which Redis keeps inside the object.

local EPOCH, NEAR = 1900000000000, 549755813888 -- 2030-03-17, 2^39 ms (17 years)

local function bytes(n)
  if n < 256 then return 1 end
  if n < 65536 then return 2 end
  if n < 16777216 then return 3 end
  if n < 4294967296 then return 4 end
  if n < 1099511627776 then return 5 end
  if n < 281474976710656 then return 6 end
  return 7
end

-- forms[head] is the struct format of a state with that header byte, but for the
-- bit of minutes. The commonest are written down, others made when they are met.
local forms = {
  [9] = '>Bi5I1I1', [10] = '>Bi5I2I1', [11] = '>Bi5I3I1', [12] = '>Bi5I4I1',
  [17] = '>Bi5I1I2', [18] = '>Bi5I2I2', [19] = '>Bi5I3I2', [20] = '>Bi5I4I2',
}
local function form_of(head)
  local wide = head >= 64
  local na = head % 8
  local nb = ((wide and head - 64 or head) - na) / 8
  if na == 0 or nb == 0 then bad_state() end
  local f = (wide and '>Bi7I' or '>Bi5I') .. na .. 'I' .. nb
  forms[head] = f
  return f
end

local function encode(at, a, b)
  local minutes = 0
  if b >= 60000 and b % 60000 == 0 then minutes, b = 128, b / 60000 end
  local head, near = 8 * (b < 256 and 1 or bytes(b)) + (a < 256 and 1 or bytes(a)), at - EPOCH
  if near >= NEAR or near < -NEAR then head, near = head + 64, at end
  return pack(forms[head] or form_of(head), minutes + head, near, a, b)
end

-- decode returns time, a, b and the offset of what follows them in v. Unless more
-- is true nothing may.
local function decode(v, more)
  local head = byte(v) or bad_state()
  local minutes = head >= 128
  if minutes then head = head - 128 end
  local f, sizes, size = forms[head] or form_of(head), head, 6
  if head >= 64 then sizes, size = head - 64, 8 end
  local na = sizes % 8
  size = size + na + (sizes - na) / 8
  if #v ~= size and not (more and #v > size) then bad_state() end
  local _, at, a, b, after = unpack_bytes(f, v)
  if head < 64 then at = at + EPOCH elseif at > MAX or at < -MAX then bad_state() end
  if minutes then b = b * 60000 end
  if a > MAX or b > MAX then bad_state() end
  return at, a, b, after
end

-- life_of returns for how long a state is kept that is needed for that long, both
-- in ms; as text. The slack lets an edit that lengthens a window find what was
-- consumed. A test clock does not run with Redis's, so states of tests are kept
-- at least test_life. Times are whole tenths of a second, so that many buckets of
-- a call share one and its text.
local test_life = 0
local lives = {}
local function life_of(needed)
  local life = needed < 60000 and 2 * needed or needed + 60000
  if life < 1 then life = 1 end
  if life > 315576000000 then
    life = 315576000000
  elseif life < test_life then
    life = test_life
  else
    life = life + (-life) % 100
  end
  local t = lives[life]
  if not t then
    t = fmt('%d', life)
    lives[life] = t
  end
  return t
end
