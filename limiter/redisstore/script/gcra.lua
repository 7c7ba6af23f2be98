-- gcra.lua: gcra. Mirrors limiter/gcra.go.
--
-- State: the theoretical arrival time at + used/scale ms, where scale is the
-- count it was written under; packed as at, used, scale.

local function make_gcra()
  local gcra = {keep = keep_one}

  -- distance is how far now is before the theoretical arrival time, as a level
  -- scaled by the window; it may exceed MAX (and then only that matters).
  local function distance(a, s, now)
    local count = a.count
    if not s.exists or count == 0 then return 0 end
    local used, at, scale = s.used, s.at, s.scale
    if now >= at then
      local drained = (now - at) * scale
      if drained >= used then return 0 end
      if scale == count then return used - drained end
      return rescale(used - drained, scale, count)
    end
    return rescale(used, scale, count) + (at - now) * count
  end

  function gcra.load(a)
    local s, v = load_string(a)
    if v then s.at, s.used, s.scale = decode(v) end
    return s
  end

  function gcra.save(a, s, life) save_string(a, encode(s.at, s.used, s.scale), life) end

  function gcra.rebase(a, s, now)
    if a.count == 0 then return false end
    local full = a.burst * a.window
    if distance(a, s, now) <= full then return false end
    s.used, s.at, s.scale = full, now, a.count
    return true
  end

  function gcra.fits(a, s, now, w)
    if a.count == 0 then
      if w == 0 then return true, 0 end
      return false, NEVER
    end
    return bucket_fits(a, distance(a, s, now), w, 0)
  end

  function gcra.spend(a, s, now, w)
    if a.count == 0 then return now end
    local before = distance(a, s, now)
    a.base = least(before, MAX)
    local lv = add(before, least(w * a.window, MAX))
    s.used, s.at, s.scale = least(lv, a.burst * a.window), now, a.count
    return now
  end

  function gcra.refund(a, s, now, at, w, base)
    if a.count == 0 then return 0, false end
    local lv = distance(a, s, now)
    local give = still_held(a, at, w, now, lv, base)
    if give == 0 then return 0, false end
    s.used, s.at, s.scale = lv - give, now, a.count
    return fdiv(give, a.window), true
  end

  function gcra.refund_now(a, s, now, w) return gcra.refund(a, s, now, now, w) end

  function gcra.figures(a, s, now)
    if a.count == 0 then return 0, 0 end
    return bucket_figures(a, distance(a, s, now), 0)
  end

  function gcra.capacity(a)
    if a.count == 0 then return 0 end
    return a.burst
  end

  function gcra.expires(_, s)
    if s.scale == 0 then return s.at end
    return s.at + cdiv(s.used, s.scale)
  end

  return gcra
end
