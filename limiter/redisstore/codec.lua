-- codec.lua: the stored form of states that are one small string.
--
-- A packed state is a header byte, a time and two amounts, big-endian:
--   header  64*wide + 8*bytes(b) + bytes(a), each of the two 1..7
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

local function encode(at, a, b)
  local na, nb = bytes(a), bytes(b)
  local near = at - EPOCH
  if near >= -NEAR and near < NEAR then
    return pack('>Bi5I' .. na .. 'I' .. nb, 8 * nb + na, near, a, b)
  end
  return pack('>Bi7I' .. na .. 'I' .. nb, 64 + 8 * nb + na, at, a, b)
end

-- decode returns time, a, b and the offset of what follows them in v.
local function decode(v)
  local head = string.byte(v, 1)
  if not head or head > 127 then bad_state() end
  local wide = head >= 64
  if wide then head = head - 64 end
  local nb = floor(head / 8)
  local na = head - 8 * nb
  local at_len = wide and 7 or 5
  if na == 0 or nb == 0 or #v < 1 + at_len + na + nb then bad_state() end
  local at, a, b, after = unpack_bytes('>i' .. at_len .. 'I' .. na .. 'I' .. nb, v, 2)
  if a > MAX or b > MAX or at > MAX or at < -MAX then bad_state() end
  if not wide then at = at + EPOCH end
  return at, a, b, after
end

-- decode_all is decode for a state with nothing behind it.
local function decode_all(v)
  local at, a, b, after = decode(v)
  if after ~= #v + 1 then bad_state() end
  return at, a, b
end

-- Time to live, ms. The slack lets an edit that lengthens a window find what
-- was consumed. A test clock does not run with Redis's, so states of tests are
-- kept at least test_ttl.
local SLACK, TTL_MAX = 60000, 315576000000
local test_ttl = 0

local function ttl_of(needed)
  if needed < 1 then needed = 1 end
  local ttl = least(needed + least(needed, SLACK), TTL_MAX)
  if ttl < test_ttl then return test_ttl end
  return ttl
end

local function load_string(a)
  local v = call('GET', a.key)
  local s = {exists = false, at = 0, used = 0, prev = 0, scale = 0}
  if v then s.exists = true end
  return s, v
end

local function save_string(a, v, ttl) call('SET', a.key, v, 'PX', text(ttl)) end

local function keep_one(a, ttl) call('PEXPIRE', a.key, text(ttl)) end
