-- Ends leased items for good, and returns others to their places.
-- ARGV[1]   how many of the tickets are ended
-- ARGV[2…]  tickets: those ended, then those returned
-- Returns how many were ended.

local ended = 0
for i = 2, #ARGV do
  local ticket = ARGV[i]
  local count = redis.call('EXISTS', stream) == 1 and deliveries(ticket)
  if count then
    if i - 1 <= tonumber(ARGV[1]) then
      local e = redis.call('XRANGE', stream, ticket, ticket)[1]
      remove(ticket, e and fields(e[2]))
      if e then ended = ended + 1 end
    else
      pend(ticket, 0, math.max(count - 1, 0))
    end
  end
end
return ended
