-- Changes for whom a record of the restart guard is: see remember.lua. KEYS[1] is the record.
--
-- ARGV: the settings that it is for, the settings that it is to be for, others that will do as well,
-- and the age with which the memory begins, in microseconds: 0 or less. Begins the record where there
-- is none. Leaves a record alone that is for the second or the third.
-- Returns 1, or the settings that the record is for if they are none of the three, or "a replica".
local info = redis.call('INFO', 'replication')
local id = string.match(info, 'master_replid:(%x+)')
if not id or not string.find(info, 'role:master', 1, true) then
  return 'a replica'
end
local own = redis.call('HMGET', KEYS[1], 'for')[1]
if own and (own == ARGV[2] or own == ARGV[3]) then
  return 1
end
if own and own ~= ARGV[1] then
  return own
end
local time = redis.call('TIME')
redis.call('HSET', KEYS[1], 'id', id, 'for', ARGV[2], 'age', ARGV[4], 'last', string.format('%.0f', time[1] * 1000000 + time[2]))
return 1
