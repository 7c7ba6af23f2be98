-- Takes back one put, also one that arrives later.
-- Returns '' if its item is not in the queue, or the ticket of an item that stays:
-- one that was leased and not returned, that is gone, or whose ticket another put
-- returned too.

-- How late a put can arrive that is refused, ms.
local LATE = 600000

local ticket = redis.call('GET', KEYS[4]) or ''
if ticket ~= '' then
  if redis.call('HEXISTS', bodies, ticket) == 0 or redis.call('HEXISTS', ids, '+' .. ticket) == 1
    or (deliveries(ticket) or 0) > 0 then
    return ticket
  end
  local e = redis.call('XRANGE', stream, ticket, ticket)[1]
  remove(ticket, e and fields(e[2]))
end
redis.call('SET', KEYS[4], '', 'PX', LATE)
return ''
