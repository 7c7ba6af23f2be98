-- exact.lua: integer arithmetic on doubles, and the names the other files use.
--
-- Every number of a limit and of a state is an integer of at most 2^53-1, and
-- limits are validated so that count*window and burst*window are too. Two facts
-- then make each comparison exact:
--   * rounding is monotone: a product or a sum of non-negative integers is
--     either at most 2^53-1 and exact, or it is rounded to 2^53 or more, which
--     is more than anything it is compared with;
--   * floor(a/b) and ceil(a/b) are exact for |a|, b < 2^53: the quotient differs
--     from the next integer by at least 1/b, which is at least half of the space
--     between doubles there.
-- Sums of terms with both signs are ordered so that no partial sum passes 2^53.

local MAX = 9007199254740991 -- 2^53-1, limiter.MaxExact
local NEVER = -1             -- limiter.Never
local floor, ceil, fmt, byte, sub = math.floor, math.ceil, string.format, string.byte, string.sub
local call, pack, unpack_bytes = redis.call, struct.pack, struct.unpack

-- Codes of operations (limiter.Op) and of algorithms (limiter.Algorithm;
-- FIRST_HIT is fixed_window aligned to its first hit).
local TAKE, PEEK, CHARGE, REFUND, RESET, RELEASE, RENEW, SETTLE = 0, 1, 2, 3, 4, 5, 6, 7
-- For parts of a request that spans slots: give back what a part has taken, and
-- take while declaring that the whole request relies on it.
local UNDO, COMMIT = 8, 9
local LOG, COUNTER, BUCKETS, TOKEN_BUCKET, GCRA, LEAKY_QUEUE, CONCURRENCY, FIRST_HIT = 2, 3, 4, 5, 6, 8, 9, 10
-- LOOKS is added to the algorithm of an ask that looks in a take, KEEPS to an
-- operation that says for how long its record is kept.
local LOOKS, KEEPS = 16, 16

-- An integer of at most 2^53 passes through a C long unharmed.
local function text(n) return fmt('%d', n) end

local function bad_state()
  error({err = "BADSTATE the value at a key is not one of ours"}, 0)
end

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
