-- lease.lua: concurrency. Mirrors limiter/lease.go.
--
-- a.key is a sorted set: member = lease id, score = start - offset. a.side is a
-- hash that exists only if a lease weighs more than one unit or the clock has
-- been rebased: "o" = offset, "t" = sum of (weight - 1), "w:<id>" = weight of a
-- lease of more than one. Both expire together; a server that evicts the hash
-- alone makes its leases weigh one unit. Nothing is ever scanned but
-- leases that have expired and, if weights differ, those a denial waits for.
--
-- State in memory: n leases, extra (the sum in "t"), newest (start), and the
-- pending change: dead_n expired leases to drop, gone (an id to remove), set
-- (an id to write with start and weight).

local function make_lease()
  local lease = {}

  local function load_newest(a, s, rank)
    local got = call('ZRANGE', a.key, rank, rank, 'WITHSCORES')
    if #got == 0 then return nil end
    local at = tonumber(got[2])
    if at ~= floor(at) or at > MAX or at < -MAX then bad_state() end
    return at + s.offset, got[1]
  end

  function lease.load(a)
    local s = {exists = false, at = 0, n = 0, extra = 0, offset = 0, newest = 0, dead_n = 0, dead_extra = 0,
      newest_id = false, had_side = false, limit = false, dead_fields = false, asked = false, held_at = false,
      held_w = false, drop_n = 0, drop_fields = false, gone = false, set = false} -- so that it need not grow
    local side = call('HMGET', a.side, 'o', 't')
    local n = call('ZCARD', a.key)
    s.had_side = side[1] or side[2]
    if n == 0 then return s end
    s.exists, s.n = true, n
    if s.had_side then
      s.offset, s.extra = tonumber(side[1]), tonumber(side[2])
      if not s.offset or not s.extra then bad_state() end
    end
    s.newest, s.newest_id = load_newest(a, s, -1)
    return s
  end

  local function at_time(s, now)
    if s.n > 0 and s.newest > now then return s.newest end
    return now
  end

  -- weights_over returns the sum of (weight - 1) of the ids in got, every second
  -- element of a reply.
  local function weights_over(a, got)
    local out, fields = {}, {}
    for i = 1, #got, 2 do fields[#fields + 1] = 'w:' .. got[i] end
    for from = 1, #fields, 500 do
      local part = call('HMGET', a.side, unpack(fields, from, least(from + 499, #fields)))
      for i = 1, #part do out[#out + 1] = (tonumber(part[i] or '1') or bad_state()) - 1 end
    end
    return out, fields
  end

  -- settle finds how many leases have expired at t, and their extra units.
  local function settle(a, s, t)
    local limit = t - a.window
    if s.limit == limit then return end
    s.limit, s.dead_n, s.dead_extra, s.dead_fields = limit, 0, 0, false
    if s.n == 0 then return end
    local oldest = call('ZRANGE', a.key, 0, 0, 'WITHSCORES')
    if tonumber(oldest[2]) + s.offset > limit then return end
    s.dead_n = call('ZCOUNT', a.key, '-inf', text(limit - s.offset))
    if s.extra > 0 then
      local over, fields = weights_over(a, call('ZRANGE', a.key, 0, s.dead_n - 1, 'WITHSCORES'))
      for i = 1, #over do s.dead_extra = s.dead_extra + over[i] end
      s.dead_fields = fields
    end
  end

  local function live(s) return s.n + s.extra - s.dead_n - s.dead_extra end

  local function seek(a, s, t, id)
    if s.n == 0 or id == '' then return nil end
    local score = call('ZSCORE', a.key, id)
    if not score then return nil end
    local at = tonumber(score) + s.offset
    if at <= t - a.window then return nil end
    local w = s.extra > 0 and call('HGET', a.side, 'w:' .. id)
    return at, tonumber(w or '1') or bad_state()
  end

  -- find returns start and weight of the lease id if it is live at t. A request
  -- has one id and changes no lease before it has found it, so it seeks once.
  local function find(a, s, t, id)
    if s.asked ~= t then
      s.held_at, s.held_w = seek(a, s, t, id)
      s.asked = t
    end
    return s.held_at, s.held_w
  end

  -- wait is how long until the oldest leases that hold need units have expired.
  local function wait(a, s, now, need)
    if s.extra == 0 then
      local at = load_newest(a, s, s.dead_n + need - 1)
      return at + a.window - now
    end
    local from = s.dead_n
    while true do
      local got = call('ZRANGE', a.key, from, from + 99, 'WITHSCORES')
      local over = weights_over(a, got)
      for i = 1, #over do
        need = need - 1 - over[i]
        if need <= 0 then return tonumber(got[2 * i]) + s.offset + a.window - now end
      end
      if #over < 100 then return NEVER end
      from = from + 100
    end
  end

  function lease.rebase(a, s, now)
    if s.n == 0 or s.newest - now <= a.window then return false end
    s.offset, s.newest = s.offset + now - s.newest, now
    return true
  end

  function lease.fits(a, s, now, w, id)
    local t = at_time(s, now)
    settle(a, s, t)
    if w > 0 and find(a, s, t, id) then return true, 0 end
    if w > a.count then return false, NEVER end
    local need = live(s) + w - a.count
    if need <= 0 then return true, 0 end
    return false, wait(a, s, now, need)
  end

  local function put(s, id, at, w)
    s.set = {id = id, at = at, w = w}
    s.newest, s.newest_id = at, id
  end

  function lease.spend(a, s, now, w, id)
    local t = at_time(s, now)
    settle(a, s, t)
    local held = find(a, s, t, id)
    if held then
      a.held = true
      return held
    end
    s.drop_n, s.drop_fields = s.dead_n, s.dead_fields
    s.n, s.extra = s.n - s.dead_n + 1, s.extra - s.dead_extra + w - 1
    s.dead_n, s.dead_extra = 0, 0
    if s.n == 1 then s.offset = 0 end
    put(s, id, t, w)
    return t
  end

  function lease.refund() return 0, false end
  function lease.refund_now() return 0, false end

  function lease.release(a, s, now, id)
    local t = at_time(s, now)
    local at, w = find(a, s, t, id)
    if not at then return 0, false end
    s.n, s.extra, s.gone, s.limit = s.n - 1, s.extra - w + 1, id, false
    if s.newest_id == id and s.n > 0 then s.newest, s.newest_id = load_newest(a, s, -2) end
    return w, true
  end

  function lease.renew(a, s, now, id)
    local t = at_time(s, now)
    local at, w = find(a, s, t, id)
    if not at then return false end
    settle(a, s, t)
    put(s, id, t, w)
    return true
  end

  function lease.figures(a, s, now)
    settle(a, s, at_time(s, now))
    if s.n == s.dead_n then return a.count, 0 end
    return most(0, a.count - live(s)), s.newest + a.window - now
  end

  function lease.expires(a, s) return s.newest + a.window end

  function lease.keep(a, life, s)
    call('PEXPIRE', a.key, life)
    if s.had_side then call('PEXPIRE', a.side, life) end
  end

  function lease.save(a, s, life)
    if s.n == 0 then
      call('DEL', a.key, a.side)
      return
    end
    if s.drop_n > 0 then
      call('ZREMRANGEBYRANK', a.key, 0, s.drop_n - 1)
      local f = s.drop_fields or {}
      for from = 1, #f, 500 do call('HDEL', a.side, unpack(f, from, least(from + 499, #f))) end
    end
    if s.gone then
      call('ZREM', a.key, s.gone)
      if s.had_side then call('HDEL', a.side, 'w:' .. s.gone) end
    end
    local set = s.set
    if set then call('ZADD', a.key, text(set.at - s.offset), set.id) end
    if s.extra == 0 and s.offset == 0 then
      if s.had_side then call('DEL', a.side) end
      s.had_side = false
    else
      call('HSET', a.side, 'o', text(s.offset), 't', text(s.extra))
      if set and set.w > 1 then call('HSET', a.side, 'w:' .. set.id, text(set.w)) end
      s.had_side = true
    end
    lease.keep(a, life, s)
  end

  return lease
end
