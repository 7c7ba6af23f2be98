-- ban.lua: bans. Mirrors limiter/ban.go.
--
-- State: at = first counted denial, n = counted ones, until = end of the last ban, length = its
-- length (0 for none), stored as "at:n:until:length". count is the number of denials, window their
-- time, extra 16 times the length of a ban plus its growth, w the most. With COUNT it counts a
-- denial; its delay is then 1 if that began the ban.

return function(v, now, count, window, extra, w, _, _, how)
  local at, n, stop, length, value = 0, 0, 0, 0, false
  if v then
    at, n, stop, length = v:match('^(%-?%d+):(%d+):(%-?%d+):(%d+)$')
    at, n, stop, length = tonumber(at), tonumber(n), tonumber(stop), tonumber(length)
    if not at then return nil end
    if length > 0 and stop - now > length then stop, value = now + length, '' end
    if n > 0 and at - now > window then at, value = now, '' end
  end
  if n > 0 and now >= at + window then n = 0 end
  local left, began = length > 0 and stop > now and stop - now or 0, nil
  if how == COUNT and left == 0 then
    if n == 0 then at = now end
    n, began, value = n + 1, 0, ''
    if n >= count then
      local grow, before = extra % 16, length
      length = (extra - grow) / 16
      if before > 0 and now - stop < w then
        length = before * grow
        if length > w then length = w end
      end
      at, n, stop, left, began = now, 0, now + length, length, 1
    end
  end
  local needed = 0
  if n > 0 then needed = at + window - now end
  if length > 0 and stop + w - now > needed then needed = stop + w - now end
  if value then value = ('%d:%d:%d:%d'):format(at, n, stop, length) end
  if left > 0 then return value, needed, left, 0, left, began, now end
  return value, needed, 0, n < count and count - n or 0, n > 0 and at + window - now or 0, began, now
end
