-- restore.lua: the mark that what is counted here is kept. Without it the data were lost: export.lua exports nothing.
--
-- KEYS     the mark: 'kept', or the names of the restores that are under way, each behind a space, the latest last
-- ARGV     the name of a restore; 1 to end it, 0 to begin it beside others
-- Returns  '1', or '0' if nothing is to be restored, or no restore of that name to be ended: another one has ended, or
--          the data were lost again
--
-- Whoever ends first ends all. Else nodes that begin in turn would each keep the others from ending.

local mark, ends = redis.call('GET', KEYS[1]) or '', ARGV[2] == '1'
if mark == 'kept' or ends and not (mark .. ' '):find(' ' .. ARGV[1] .. ' ', 1, true) then return '0' end
redis.call('SET', KEYS[1], ends and 'kept' or (mark .. ' ' .. ARGV[1]):sub(-1000))
return '1'
