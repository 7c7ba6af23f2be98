-- common.lua: what the kernels of lists and the long way share.

local call, floor = redis.call, math.floor

local function bad_state()
  error({err = 'BADSTATE the value at a key is not one of ours'}, 0)
end

-- text writes an integer of at most 2^53, which passes through a C long unharmed.
local function text(n) return ('%d'):format(n) end
local function least(a, b) if a < b then return a end return b end
local function most(a, b) if a > b then return a end return b end

