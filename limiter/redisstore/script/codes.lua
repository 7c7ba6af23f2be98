-- codes.lua: the arithmetic of the long way.

local floor = math.floor

-- An integer of at most 2^53 passes through a C long unharmed.
local function text(n) return fmt('%d', n) end

-- The rest is exact, so the division is as well; no function is called.
local function fdiv(a, b) return (a - a % b) / b end
-- The sum turns a negative zero into zero.
local function cdiv(a, b) return ceil(a / b) + 0 end
local function least(a, b) if a < b then return a end return b end
local function most(a, b) if a > b then return a end return b end

-- add adds two stored amounts and stops at MAX.
local function add(a, b)
  if a > MAX - b then return MAX end
  return a + b
end

-- rescale converts v from units of 1/from to units of 1/to, rounding up; a
-- started unit counts as whole where its product would pass MAX.
local function rescale(v, from, to)
  if from == to or from == 0 or v == 0 then return v end
  local whole = fdiv(v, from)
  local rest = v - whole * from
  local out = least(whole * to, MAX)
  if rest == 0 then return out end
  if rest > fdiv(MAX, to) then return add(out, to) end
  return add(out, cdiv(rest * to, from))
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

local function save_string(a, v, life) call('SET', a.key, v, 'PX', life) end

local function keep_one(a, life) call('PEXPIRE', a.key, life) end
