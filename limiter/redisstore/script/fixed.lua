-- fixed.lua: fixed_window. Mirrors limiter/fixed.go.
--
-- State: at = last change (first hit: start of the window), used = units. Stored
-- as the decimal integer at*10^6 + used, which Redis keeps without a string; as
-- "at:used" where used has more than six digits. Never read through a double.

local function make_fixed()
  local fixed = {keep = keep_one}

  local function window(a, s, now)
    local t, w = now, a.window
    if s.exists and s.at > now then t = s.at end
    if a.algorithm == FIRST_HIT then
      if s.exists and t < s.at + w then return s.used, s.at + w, t end
      return 0, t + w, t
    end
    local start = t - (t - a.anchor) % w
    if s.exists and s.at >= start then return s.used, start + w, t end
    return 0, start + w, t
  end

  function fixed.load(a)
    local s, v = load_string(a)
    s.void = nil
    if not v then return s end
    local n, first = #v, byte(v, 1)
    if n > 6 and n <= 19 and first >= 48 and first <= 57 then
      local at, used = tonumber(sub(v, 1, n - 6)), tonumber(sub(v, n - 5))
      if at and used then
        s.at, s.used = at, used
        return s
      end
    elseif n > 0 and n <= 6 and string.find(v, '^%d+$') then
      s.at, s.used = 0, tonumber(v)
      return s
    end
    local at, used = string.match(v, '^(%-?%d+):(%d+)$')
    s.at, s.used = tonumber(at), tonumber(used)
    if not at or s.used > MAX or s.at > MAX or s.at < -MAX then bad_state() end
    return s
  end

  function fixed.save(a, s, life)
    if s.void then
      call('DEL', a.key)
      return
    end
    local v
    if s.used < 1000000 and s.at >= 0 and s.at < 9200000000000 then
      v = s.at == 0 and text(s.used) or fmt('%d%06d', s.at, s.used)
    else
      v = fmt('%d:%d', s.at, s.used)
    end
    save_string(a, v, life)
  end

  function fixed.rebase(a, s, now)
    if s.at - now <= a.window then return false end
    s.at = now
    return true
  end

  function fixed.fits(a, s, now, w)
    local used, stop = window(a, s, now)
    if w <= a.count - used then return true, 0 end
    if w > a.count then return false, NEVER end
    return false, stop - now
  end

  function fixed.spend(a, s, now, w)
    local used, stop, t = window(a, s, now)
    s.used = add(used, w)
    s.at = a.algorithm == FIRST_HIT and stop - a.window or t
    return t
  end

  function fixed.refund(a, s, now, at, w)
    local used, stop = window(a, s, now)
    if at < stop - a.window or at >= stop then return 0, false end
    local give = least(w, used)
    if give == 0 then return 0, false end
    s.used = used - give
    return give, true
  end

  -- undo also forgets a window that began with what it gives back.
  function fixed.undo(a, s, now, at, w)
    local give, did = fixed.refund(a, s, now, at, w)
    s.void = did and s.used == 0 and a.algorithm == FIRST_HIT and s.at == at
    return give, did
  end

  function fixed.refund_now(a, s, now, w)
    return fixed.refund(a, s, now, most(now, s.at), w)
  end

  function fixed.figures(a, s, now)
    local used, stop = window(a, s, now)
    if used == 0 then return a.count, 0 end
    return most(0, a.count - used), stop - now
  end

  function fixed.expires(a, s)
    if a.algorithm == FIRST_HIT then return s.at + a.window end
    return s.at - (s.at - a.anchor) % a.window + a.window
  end

  return fixed
end
