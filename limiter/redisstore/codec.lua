-- codec.lua: the stored form of states that are one small string.
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

-- forms[head] is the struct format of a state with that header byte.
local forms = {}
local function form_of(head)
  local f = forms[head]
  if not f then
    local minutes = head >= 128
    local sizes = minutes and head - 128 or head
    local wide = sizes >= 64
    if wide then sizes = sizes - 64 end
    local nb = floor(sizes / 8)
    local na = sizes - 8 * nb
    if na == 0 or nb == 0 then bad_state() end
    f = {(wide and '>Bi7I' or '>Bi5I') .. na .. 'I' .. nb, (wide and 8 or 6) + na + nb, wide, minutes}
    forms[head] = f
  end
  return f
end

local function encode(at, a, b)
  local minutes = 0
  if b >= 60000 and b % 60000 == 0 then minutes, b = 128, b / 60000 end
  local head, near = minutes + 8 * bytes(b) + bytes(a), at - EPOCH
  if near >= -NEAR and near < NEAR then
    return pack(form_of(head)[1], head, near, a, b)
  end
  head = head + 64
  return pack(form_of(head)[1], head, at, a, b)
end

-- decode returns time, a, b and the offset of what follows them in v.
local function decode(v)
  local head = byte(v, 1)
  if not head then bad_state() end
  local f = form_of(head)
  if #v < f[2] then bad_state() end
  local _, at, a, b, after = unpack_bytes(f[1], v)
  if a > MAX or b > MAX or at > MAX or at < -MAX then bad_state() end
  if not f[3] then at = at + EPOCH end
  if f[4] then
    b = b * 60000
    if b > MAX then bad_state() end
  end
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
-- Times are whole tenths of a second, so that many buckets of a call share one
-- and its text.
local SLACK, TTL_MAX, TTL_STEP = 60000, 315576000000, 100
local test_ttl = 0
local ttl_texts = {}

local function ttl_of(needed)
  local ttl = needed < SLACK and 2 * needed or needed + SLACK
  if ttl < 1 then ttl = 1 end
  if ttl > TTL_MAX then return TTL_MAX end
  if ttl < test_ttl then return test_ttl end
  return ttl + (-ttl) % TTL_STEP
end

local function ttl_text(ttl)
  local t = ttl_texts[ttl]
  if not t then
    t = text(ttl)
    ttl_texts[ttl] = t
  end
  return t
end

-- load_string returns the state table of a, which serves one request after the
-- other, and the stored string. Numbers that are not in it are as they were.
local function load_string(a)
  local v, s = call('GET', a.key), a.spare
  if not s then
    s = {exists = false, at = 0, used = 0, prev = 0, scale = 0}
    a.spare = s
  end
  if v then
    s.exists = true
  else
    s.exists, s.at, s.used, s.prev, s.scale = false, 0, 0, 0, 0
  end
  return s, v
end

local function save_string(a, v, ttl) call('SET', a.key, v, 'PX', ttl_text(ttl)) end

local function keep_one(a, ttl) call('PEXPIRE', a.key, ttl_text(ttl)) end
