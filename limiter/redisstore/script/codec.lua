-- codec.lua: the stored form of states that are one small string, and for how
-- long states are kept. The main chunk and every kernel use these functions.
--
-- A packed state is a header byte, a time and two amounts, big-endian:
--   header  128*minutes + 64*wide + 8*bytes(b) + bytes(a), each of the two 1..7;
--           minutes: b, usually a window, is in units of 60,000
--   time    5 bytes, signed ms from 1,900,000,000,000 (2030-03-17); 7 bytes,
--           signed ms from 1970, if wide
--   a, b    unsigned, as many bytes as the header says
-- A common state is 8 to 12 bytes long, which Redis keeps inside the object.
--
-- Every number of a limit and of a state is an integer of at most MAX = 2^53-1, and
-- limits are validated so that count*window and burst*window are too. Two facts
-- then make each comparison of every kernel exact:
--   * rounding is monotone: a product or a sum of non-negative integers is
--     either at most MAX and exact, or it is rounded to 2^53 or more, which is
--     more than anything it is compared with;
--   * ceil(a / b), and (a - a % b) / b for a >= 0, are exact for |a|, b < 2^53: the
--     quotient differs from the next integer by at least 1/b, which is at least half
--     of the space between doubles there. For a < 0, a - a % b may pass -2^53.
-- Sums of terms with both signs are ordered so that no partial sum passes 2^53.

local try, byte, pack, unpack_bytes = redis.pcall, string.byte, struct.pack, struct.unpack

-- forms[head] is the struct format of a state with that header byte, but for the
-- bit of minutes. The commonest are here; form_of adds others as they come.
local forms = {
  [9] = '>Bi5I1I1', [10] = '>Bi5I2I1', [11] = '>Bi5I3I1', [12] = '>Bi5I4I1',
  [17] = '>Bi5I1I2', [18] = '>Bi5I2I2', [19] = '>Bi5I3I2', [20] = '>Bi5I4I2',
}
local function form_of(head)
  local wide = head >= 64
  local na = head % 8
  local nb = ((wide and head - 64 or head) - na) / 8
  if na == 0 or nb == 0 then return nil end
  local f = (wide and '>Bi7I' or '>Bi5I') .. na .. 'I' .. nb
  forms[head] = f
  return f
end

-- encode packs a time (ms) and the amounts a and b.
local function encode(at, a, b)
  local minutes = 0
  if b >= 60000 and b % 60000 == 0 then minutes, b = 128, b / 60000 end
  local head, near, x = 9, at - 1900000000000, a
  while x >= 256 do head, x = head + 1, x / 256 end
  x = b
  while x >= 256 do head, x = head + 8, x / 256 end
  if near >= 549755813888 or near < -549755813888 then head, near = head + 64, at end -- 2^39 ms, 17 years
  return pack(forms[head] or form_of(head), minutes + head, near, a, b)
end

-- decode returns time, a, b and the position of what follows them in v. Unless
-- more is true nothing may follow. It returns nil if v is not a packed state.
local function decode(v, more)
  local head = byte(v)
  if not head then return nil end
  local minutes = head >= 128
  if minutes then head = head - 128 end
  local f, sizes, size = forms[head] or form_of(head), head, 6
  if not f then return nil end
  if head >= 64 then sizes, size = head - 64, 8 end
  local na = sizes % 8
  size = size + na + (sizes - na) / 8
  if #v ~= size and not (more and #v > size) then return nil end
  local _, at, a, b, after = unpack_bytes(f, v)
  if head < 64 then at = at + 1900000000000 elseif at > MAX or at < -MAX then return nil end
  if minutes then b = b * 60000 end
  if a > MAX or b > MAX then return nil end
  return at, a, b, after
end

-- save writes the new value of a key: a string, '' for none, or, of a list (stored is
-- true), a function that writes and takes its life (ms, as text). Where value is
-- false it keeps what is stored alive for as long as it is needed (ms), and the
-- side of a list with it. It returns the reply of a write that failed, else nil or
-- false.
--
-- The slack in a life lets an edit that lengthens a window find what was consumed.
-- A test clock does not run with Redis's, so states of tests are kept at least
-- test_life. Lives are whole tenths of a second, so that many states of a call
-- share one and its text.
local test_life, lives = 0, {}
local function save(key, stored, value, needed, side)
  local life = lives[needed]
  if not life then
    life = needed < 60000 and 2 * needed or needed + 60000
    if life < 1 then life = 1 end
    if life > 315576000000 then
      life = 315576000000
    elseif life < test_life then
      life = test_life
    else
      life = life + (-life) % 100
    end
    life = ('%d'):format(life)
    lives[needed] = life
  end
  local reply
  if value then
    if stored == true then
      value(life)
      return nil
    elseif value ~= '' then
      reply = try('SET', key, value, 'PX', life)
      return reply.err and reply
    end
    reply = try('DEL', key)
  elseif stored and needed > 0 then
    reply = try('PTTL', key)
    if type(reply) == 'number' and reply < needed then
      reply = try('PEXPIRE', key, life)
      if side then try('PEXPIRE', side, life) end
    end
  end
  return type(reply) == 'table' and reply.err and reply
end
