-- The queue of one rule. Every script of this folder begins with this file.
--
-- KEYS[1]  the stream: order, one entry an item, with the fields
--            a  how long it may wait, ms, from the time in its ticket
--            k  its bucket
--            i  its own id, or ''
-- KEYS[2]  hash: body by ticket (the stream's id of the entry)
-- KEYS[3]  hash: ticket by the item's own id; and '+' and a ticket for an item whose
--          ticket more than one put returned
-- KEYS[4]  of put and withdraw only: the ticket that one put returned, '' once it is
--          withdrawn
--
-- The one consumer group's list of pending entries holds what is leased and what
-- was returned. An entry there has been idle for LONGEST when it is free: a lease
-- of h ms sets its idle time to LONGEST - h, a return to LONGEST.

local GROUP, CONSUMER, LONGEST = 'g', 'c', 3600000
local stream, bodies, ids = KEYS[1], KEYS[2], KEYS[3]

local function clock()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- fields returns an entry's list of names and values as a table.
local function fields(list)
  local f = {}
  for i = 1, #list, 2 do f[list[i]] = list[i + 1] end
  return f
end

-- expiry returns the time at which an item is dropped, ms since the epoch.
local function expiry(ticket, f)
  return string.match(ticket, '^%d+') + f.a
end

-- remove removes an item and all that belongs to it.
local function remove(ticket, f)
  redis.call('XACK', stream, GROUP, ticket)
  redis.call('XDEL', stream, ticket)
  redis.call('HDEL', bodies, ticket)
  redis.call('HDEL', ids, '+' .. ticket)
  if f and f.i ~= '' and redis.call('HGET', ids, f.i) == ticket then
    redis.call('HDEL', ids, f.i)
  end
end

-- sweep drops up to a hundred of the oldest items that have become too old and
-- returns their number.
local function sweep(now)
  local n = 0
  for _, e in ipairs(redis.call('XRANGE', stream, '-', '+', 'COUNT', 100)) do
    local f = fields(e[2])
    if expiry(e[1], f) > now then break end
    remove(e[1], f)
    n = n + 1
  end
  return n
end

-- deliveries returns how often a pending item has been leased, nil if it is not pending.
local function deliveries(ticket)
  local p = redis.call('XPENDING', stream, GROUP, ticket, ticket, 1)[1]
  return p and p[4]
end

-- pend makes a pending item free in ms, with its number of deliveries.
local function pend(ticket, ms, count)
  redis.call('XCLAIM', stream, GROUP, CONSUMER, 0, ticket, 'IDLE', LONGEST - ms, 'RETRYCOUNT', count, 'JUSTID')
end
