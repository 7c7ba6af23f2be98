-- bucket.lua: token_bucket, leaky_bucket, leaky_queue and gcra. Mirrors
-- limiter/level.go and limiter/gcra.go, which differ in the scale of their states.
--
-- State of the first three: at = last change, used = level at that time in units of
-- 1/scale, scale = the window it was written under. State of gcra: the theoretical
-- arrival time at + used/scale ms, where scale is the count it was written under.
-- Packed (see codec.lua) as at, used, scale. extra is the burst.

local ceil = math.ceil

-- rescale converts used from units of 1/from to units of 1/to, rounding up; a
-- started unit counts as whole where its product would pass MAX.
local function rescale(used, from, to)
  if from == to or from == 0 or used == 0 then return used end
  local rest = used % from
  local out = (used - rest) / from * to
  if out > MAX then out = MAX end
  if rest == 0 then return out end
  local more = rest > (MAX - MAX % to) / to and to or ceil(rest * to / from)
  return out > MAX - more and MAX or out + more
end

return function(v, now, count, window, burst, w, code, _, how, booked, base)
  local gcra = code == GCRA
  if gcra and count == 0 then burst = 0 end
  local full, scale, level, t = burst * window, gcra and count or window, 0, now
  local at, used, under, value, needed = 0, 0, 0, false, nil
  if v then
    at, used, under = decode(v)
    if not at then return nil end
    if gcra then
      -- The level is how far now is before the theoretical arrival time.
      if count > 0 and now >= at then
        level = used - (now - at) * under
        level = level < 0 and 0 or under == count and level or rescale(level, under, count)
      elseif count > 0 then
        level = rescale(used, under, count) + (at - now) * count
      end
      if level > full then
        level, at, used, under = full, now, full, count
        value = encode(at, used, under)
      end
    else
      if under ~= window then used, under = rescale(used, under, window), window end
      if at > now then
        if count > 0 and at - now > ceil(full / count) then
          at = now
          value = encode(at, used, under)
        end
        level, t = used, at
      else
        level = used - (now - at) * count
        if level < 0 then level = 0 end
      end
    end
  end
  local result, delay, before, skew = 0, nil, level, t - now
  if how == REFUND or how == UNDO then
    -- What the charge certainly still adds to the level. Without it the bucket
    -- would have run empty base/count ms later at the earliest; until then it adds
    -- all of itself, after that it drains.
    local gone = booked and t > booked and (t - booked) * count - (base or 0) or 0
    local give = w * window
    if give > MAX then give = MAX end
    if gone > 0 then give = gone < give and give - gone or 0 end
    if give > level then give = level end
    if give > 0 then
      level, result = level - give, (give - give % window) / window
      value, delay = true, give -- for sums, which round otherwise
    end
  else
    -- For w up to the burst the difference lies in [-MAX, 0] and level in [0, MAX]:
    -- no bit is lost. A greater w makes it positive.
    local over = level + (w * window - full)
    if over > 0 then
      result = (w > burst or count == 0) and NEVER or ceil(over / count) + skew
      if result > MAX then result = MAX end
    end
    if code == LEAKY_QUEUE then
      -- How long an admitted request waits for what is queued before it.
      delay = result ~= 0 and NEVER or level == 0 and 0 or count == 0 and NEVER or ceil(level / count)
    end
    if w > 0 and (result == 0 and how ~= PEEK or how == CHARGE) then
      if gcra and count == 0 then
        value = encode(at, used, under)
      else
        local more = w * window
        level = more <= MAX - level and level + more or MAX
        if gcra and level > full then level = full end
        value = true
      end
    end
  end
  local wait = level == 0 and 0 or count == 0 and NEVER or ceil(level / count)
  if value == true then
    value, needed = encode(t, level, scale), (count == 0 and ONE_OFF or wait) + skew
  else
    local rate = gcra and under or count
    needed = at - now + (rate > 0 and ceil(used / rate) or gcra and 0 or ONE_OFF)
  end
  local room = full - level
  local reset = wait > 0 and wait + skew or wait
  room = room < 0 and -ceil(-room / window) or (room - room % window) / window
  return value, needed, result, room, reset > MAX and MAX or reset, delay, t, before
end
