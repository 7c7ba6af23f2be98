-- spans.lua: the kernel of a limit that spans regions: that of its algorithm, and the sums beside the state
-- (layout.lua describes them). code is SPANS, GUARD times how takes are held back (0: not at all, 1: cold open, 2: cold
-- share), and the code of the algorithm.
--
-- A take that fits is held back if the region would then have spent more than its share of what was left when the
-- others last heard of it (limiter.Sums.Held): the answer has the time to wait, and delay is HELD less what
-- would pass. It is counted as denied in the sums, which are written at once.
-- With how = REFUND or UNDO it gives back no unit that another region spent. With how = RESET it leaves sums
-- alone.
--
-- The commonest takes are decided here: those in the window of the take before, which certainly pass the guard, and
-- those that the limit denies. They leave the life of the bucket as it is, which the first take of the window has set
-- for all of them (lasts in sums.lua). sums.lua decides all others, and on a cluster those that list the bucket: its
-- slot may be moving.

local sub = string.sub
local inner = (code - SPANS) % GUARD
local mode = (code - SPANS - inner) / GUARD

-- The share until the others have heard of the region.
local cold = FULL_SHARE
if mode == GUARD_SHARE then
  cold = FULL_SHARE / tonumber(ARGV[3])
  cold = cold - cold % 1
end

-- What is read of the sums of the bucket, the position of their rest, and the weight of the take. rest is negative if
-- the bucket is not in the set of changed ones.
local mark, share, number, untold, rest, weight = 0, 0, 0, 0, 0, 0

local drains, kernel = DRAINS(inner), nil
local packed = drains or inner == COUNTER
if packed then
  -- The state and the hot part of the sums are read, and written, in one. Else as decode and encode of codec.lua.
  local both = {}

  local function form_of_both(head)
    local f = forms[head] or form_of(head)
    if not f then return nil end
    f = '>I3<I3dd' .. f
    both[head] = f
    return f
  end

  local function decode_both(v)
    local head = byte(v, SUMS_HOT + 1)
    if not head then return nil end
    local minutes, _, at, a, b = head >= 128, nil, nil, nil, nil
    if minutes then head = head - 128 end
    local f, sizes, size = both[head] or form_of_both(head), head, SUMS_HOT + 6
    if not f then return nil end
    if head >= 64 then sizes, size = head - 64, SUMS_HOT + 8 end
    local na = sizes % 8
    size = size + na + (sizes - na) / 8
    if #v < size then return nil end
    mark, share, number, untold, _, at, a, b, rest = unpack_bytes(f, v)
    local unlisted = mark < SUMS_LISTED
    if mark - (unlisted and SUMS_UNLISTED or SUMS_LISTED) ~= #v - size then return nil end
    if unlisted then rest = -rest end
    if head < 64 then at = at + 1900000000000 elseif at > MAX or at < -MAX then return nil end
    if minutes then b = b * 60000 end
    if a > MAX or b > MAX then return nil end
    return at, a, b
  end

  local function encode_both(at, a, b)
    local minutes = 0
    if b >= 60000 and b % 60000 == 0 then minutes, b = 128, b / 60000 end
    local head, near, x = 9, at - 1900000000000, a
    while x >= 256 do head, x = head + 1, x / 256 end
    x = b
    while x >= 256 do head, x = head + 8, x / 256 end
    if near >= 549755813888 or near < -549755813888 then head, near = head + 64, at end -- 2^39 ms, 17 years
    return pack(both[head] or form_of_both(head), mark, share, number, untold + weight, minutes + head, near, a, b)
  end

  kernel = make(inner, decode_both, encode_both)
else
  local of_state = kernels[inner] or make(inner)
  if not of_state then return nil end
  kernels[inner] = of_state

  function kernel(v, now, count, window, extra, w)
    if #v < SUMS_HOT then return nil end
    mark, share, number, untold = unpack_bytes('>I3<I3dd', v)
    local unlisted = mark < SUMS_LISTED
    local at = #v - mark + (unlisted and SUMS_UNLISTED or SUMS_LISTED) + 1
    if mark < SUMS_UNLISTED or at <= SUMS_HOT + 1 then return nil end
    rest = unlisted and -at or at
    return of_state(sub(v, SUMS_HOT + 1, at - 1), now, count, window, extra, w, inner)
  end
end

return function(v, now, count, window, extra, w, _, key, how, booked, base, id, side)
  if v and not how and inner ~= LOG then
    weight = w
    local value, needed, result, remaining, reset, _, at = kernel(v, now, count, window, extra, w, inner)
    if value == false then
      if needed < SUMS_MARGIN then needed = SUMS_MARGIN end
      return false, needed, result, remaining, reset
    end
    if value and result == 0 then
      -- How far the take is into the window, and the shape of the limit: windows of another one may have the same
      -- number. Of most limits that is rare, so that it is looked at only while the bucket is not listed.
      local ago, length, parts, same = 0, window, 1, rest > 0
      if drains then
        length = ONE_OFF
        if count > 0 then
          local full = extra * window
          length = (full + (count - full % count) % count) / count
          if length > ONE_OFF then length = ONE_OFF elseif length < 1 then length = 1 end
        end
        ago = now - number * length
        if ago >= length then -- or the sums have the windows of a longer period (limiter.Sums.grid)
          local shape = unpack_bytes('>I7', v, rest < 0 and -rest or rest)
          if shape > length * SHAPES + 1 then
            length = (shape - shape % SHAPES) / SHAPES
            ago = now - number * length
          end
        end
        if needed > length then ago = -1 end
      elseif inner == COUNTER then
        ago = at - number * window
      elseif inner == FIXED_WINDOW then
        ago = at - extra - number * window
      elseif inner == BUCKETS then
        ago, parts, same = at * extra - number * window, extra, false
      else
        ago, parts, same = now + reset - window - number, 0, false
        if ago > 0 then ago = -1 end
      end
      if ago >= 0 and ago < length and w <= PLAIN_WEIGHT and untold <= MOST_TOLD
        and (same or unpack_bytes('>I7', v, rest < 0 and -rest or rest) == length * SHAPES + parts) then
        local mine, part = untold > 0 and untold + w or w, share
        if mode == 0 or part == 0 then part = cold elseif part >= LEAD then part = part - LEAD end
        if mine * FULL_SHARE <= part * (remaining + mine) then
          local lists = false
          if rest < 0 then
            rest = -rest
            local most = ARGV[5] == '0' and -1 or inner == FIRST_HIT and 0 or (drains and extra or count) / ARGV[5]
            lists = untold + w > most
            -- In the first window of a bucket without a reset, nothing told, and nothing given back or denied, that is
            -- all of limiter.Sums.Worth. A bucket whose sums cannot be read is listed.
            if not lists and sub(v, rest + 14, rest + 31) ~= '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\147\0\0' then
              local fine, worth = pcall(function()
                local reset_at, told = unpack_bytes('>I7<d', v, rest + 14)
                local older, units = cmsgpack.unpack(sub(v, rest + 29)), told + untold + w
                for i = 5, #older, 2 do units = units + older[i] end
                return reset_at > 0 or older[1] > 0 or older[2] > 0 or units > most
              end)
              lists = not fine or worth
            end
          end
          -- What is listed says of which limit it is.
          if not lists or not ARGV[2]:find('{', 1, true)
            and (not drains or mode == 0 or sub(v, -17) == '\176' .. pack('<dd', count, extra))
            and type(redis.pcall('SADD', ARGV[2], key)) == 'number' then
            if lists then mark = mark + (SUMS_LISTED - SUMS_UNLISTED) end
            if not packed then
              value = pack('>I3<I3dd', mark, share, number, untold + w) .. value
            elseif lists then
              value = pack('>I3', mark) .. sub(value, 4)
            end
            return value .. sub(v, rest), KEEP_LIFE, 0, remaining, reset
          end
        end
      end
    end
  end
  kernels[SPANS] = kernels[SPANS] or make(SPANS)
  return kernels[SPANS].decide(inner, mode, cold + LEAD, v, now, count, window, extra, w, key, how, booked, base, id,
    side)
end
