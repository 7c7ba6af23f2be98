-- counter.lua: sliding_window_counter. Mirrors limiter/counter.go.
--
-- State: at = last change, used = units in at's window, prev = units in the one
-- before; packed (see codec.lua) as at, used, prev.

local function make_counter()
  local counter = {keep = keep_one}

  -- window returns current, previous, start of the window and ms elapsed in it.
  local function window(a, s, now)
    local t, w, at = now, a.window, s.at
    if not s.exists then return 0, 0, t - t % w, t % w end
    if at > now then t = at end
    local e = t % w
    local start = t - e
    local ago = start - (at - at % w)
    if ago == 0 then return s.used, s.prev, start, e end
    return 0, ago == w and s.used or 0, start, e
  end

  function counter.load(a)
    local s, v = load_string(a)
    if v then s.at, s.used, s.prev = decode(v) end
    return s
  end

  function counter.save(a, s, life) save_string(a, encode(s.at, s.used, s.prev), life) end

  function counter.rebase(a, s, now)
    if s.at - now <= 2 * a.window then return false end
    s.at = now
    return true
  end

  function counter.fits(a, s, now, w)
    local count, width = a.count, a.window
    if w > count then return false, NEVER end
    local cur, prev, start, e = window(a, s, now)
    if prev * (width - e) + (cur + w) * width <= count * width then return true, 0 end
    local room = count - w - cur
    if room >= 0 then
      -- In this window, once enough of the previous one has slid out.
      return false, start + width - fdiv(room * width, prev) - now
    end
    -- In the next window, where today's count is the previous one.
    return false, start + 2 * width - fdiv((count - w) * width, cur) - now
  end

  function counter.spend(a, s, now, w)
    local cur, prev, start, e = window(a, s, now)
    s.used, s.prev, s.at = add(cur, w), prev, start + e
    return s.at
  end

  function counter.refund(a, s, now, at, w)
    local cur, prev, start, e = window(a, s, now)
    local ago = start - (at - at % a.window)
    local give = 0
    if ago == 0 then
      give = least(w, cur)
      cur = cur - give
    elseif ago == a.window then
      give = least(w, prev)
      prev = prev - give
    end
    if give == 0 then return 0, false end
    s.used, s.prev, s.at = cur, prev, start + e
    return give, true
  end

  function counter.refund_now(a, s, now, w)
    local t = most(now, s.at)
    local units, did = counter.refund(a, s, now, t, w)
    if units >= w then return units, did end
    local more, did_more = counter.refund(a, s, now, t - a.window, w - units)
    return units + more, did or did_more
  end

  function counter.figures(a, s, now)
    local cur, prev, start, e = window(a, s, now)
    local width, full = a.window, a.count * a.window
    local level = prev * (width - e) + cur * width
    local remaining, reset = 0, 0
    if level < full then remaining = fdiv(full - level, width) end
    if cur > 0 then
      reset = start + 2 * width - now
    elseif prev > 0 then
      reset = start + width - now
    end
    return remaining, reset
  end

  function counter.expires(a, s) return s.at - s.at % a.window + 2 * a.window end

  return counter
end
