-- exact.lua: the limits of exact numbers, and the names that every call uses.
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
--
-- Redis runs the whole script for each call. A function, and each outer local
-- that functions use, costs a call some 50 ns before it has decided anything: so
-- what few requests need is made on demand (make_long in script.go), and
-- exact.lua, codec.lua, quick.lua and batch.lua hold only what most of them do.

local byte, sub, fmt, ceil = string.byte, string.sub, string.format, math.ceil
local call, pack, unpack_bytes = redis.call, struct.pack, struct.unpack

local function bad_state()
  error({err = "BADSTATE the value at a key is not one of ours"}, 0)
end
