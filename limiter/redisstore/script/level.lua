-- level.lua: token_bucket, leaky_bucket and leaky_queue. Mirrors
-- limiter/level.go; the first functions serve gcra.lua too.
--
-- State: at = last change, used = level at that time in units of 1/scale, scale
-- = the window it was written under; packed as at, used, scale.

-- bucket_fits tests a level scaled by the window; skew is added to the wait.
local function bucket_fits(a, level, w, skew)
  local burst, window = a.burst, a.window
  if w > burst then return false, NEVER end
  -- (w - burst)*window lies in [-MAX, 0] and level in [0, MAX]: no bit is lost.
  local over = level + (w * window - burst * window)
  if over <= 0 then return true, 0 end
  if a.count == 0 then return false, NEVER end
  return false, add(cdiv(over, a.count), skew)
end

local function bucket_figures(a, level, skew)
  local window = a.window
  local room = a.burst * window - level
  local remaining = room > 0 and (room - room % window) / window or 0
  if level == 0 then return remaining, 0 end
  if a.count == 0 then return remaining, NEVER end
  return remaining, add(cdiv(level, a.count), skew)
end

-- still_held is what a charge certainly still adds to the level. Without the
-- charge the bucket would have run empty base/count ms after it at the earliest;
-- until then it adds all of itself, after that it drains.
local function still_held(a, at, w, t, level, base)
  local held = least(w * a.window, MAX)
  held = held - least(held, most(0, most(0, t - at) * a.count - (base or 0)))
  return least(held, level)
end

local function make_level()
  local level = {keep = keep_one}

  local ONE_OFF = 31622400000 -- 366 days: how long a quota that never drains is kept

  local function at_time(a, s, now)
    if not s.exists then return 0, now end
    if s.scale ~= a.window then
      s.used, s.scale = rescale(s.used, s.scale, a.window), a.window
    end
    local used, at = s.used, s.at
    if now <= at then return used, at end
    local drained = (now - at) * a.count
    if drained >= used then return 0, now end
    return used - drained, now
  end

  function level.load(a)
    local s, v = load_string(a)
    if v then s.at, s.used, s.scale = decode(v) end
    return s
  end

  function level.save(a, s, life) save_string(a, encode(s.at, s.used, s.scale), life) end

  function level.rebase(a, s, now)
    if a.count == 0 or s.at - now <= cdiv(a.burst * a.window, a.count) then return false end
    s.at = now
    return true
  end

  function level.fits(a, s, now, w)
    local lv, t = at_time(a, s, now)
    return bucket_fits(a, lv, w, t - now)
  end

  -- delay is how long an admitted request of a leaky_queue waits for what is
  -- queued before it.
  function level.delay(a, s, now, admitted)
    if not admitted then return NEVER end
    local lv = at_time(a, s, now)
    if lv == 0 then return 0 end
    if a.count == 0 then return NEVER end
    return cdiv(lv, a.count)
  end

  function level.spend(a, s, now, w)
    local lv, t = at_time(a, s, now)
    local window = a.window
    local more = w * window
    a.base = lv
    s.used, s.at, s.scale = more <= MAX - lv and lv + more or MAX, t, window
    return t
  end

  function level.refund(a, s, now, at, w, base)
    local lv, t = at_time(a, s, now)
    local give = still_held(a, at, w, t, lv, base)
    if give == 0 then return 0, false end
    s.used, s.at = lv - give, t
    return fdiv(give, a.window), true
  end

  function level.refund_now(a, s, now, w)
    return level.refund(a, s, now, most(now, s.at), w)
  end

  function level.figures(a, s, now)
    local lv, t = at_time(a, s, now)
    return bucket_figures(a, lv, t - now)
  end

  function level.capacity(a) return a.burst end

  function level.expires(a, s)
    local lv, t = s.used, s.at
    if s.scale ~= a.window then lv = at_time(a, s, t) end
    if a.count == 0 then return t + ONE_OFF end
    return t + cdiv(lv, a.count)
  end

  return level
end
