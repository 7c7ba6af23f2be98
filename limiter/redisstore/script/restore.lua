-- restore.lua: the mark that what is counted here is kept. Without it the data were lost: export.lua exports nothing.
--
-- KEYS     the mark: 'kept', or the name of the restore that is under way
-- ARGV     the name of a restore; 1 to end it, 0 to begin it in place of another one
-- Returns  '1', or '0' if nothing is to be restored, or no restore of that name to be ended: another one has begun, or
--          the data were lost again

local mark, ends = redis.call('GET', KEYS[1]), ARGV[2] == '1'
if mark == 'kept' or ends and mark ~= ARGV[1] then return '0' end
redis.call('SET', KEYS[1], ends and 'kept' or ARGV[1])
return '1'
