-- Watches the memory of this server. KEYS[1] is a hash, the record: id, for, age, last. See package
-- memory. The record has no TTL.
--
-- ARGV: the client's settings, the microseconds that one call adds at most, the age that votes, and
-- "1" if the client may begin a record. Begins the record where there is none, and where its id is
-- another than the server's master_replid; adds to an age that is too low. Leaves a record alone that
-- is for other settings, or old enough, and all records of a replica.
-- Returns 1 if it has written, or 0.
local info = redis.call('INFO', 'replication')
local id = string.match(info, 'master_replid:(%x+)')
local own = redis.call('HMGET', KEYS[1], 'id', 'for', 'age', 'last')
if not id or not string.find(info, 'role:master', 1, true) or own[2] and own[2] ~= ARGV[1] then
  return 0
end
local age = tonumber(string.match(own[3] or '', '^-?%d+$') or '')
local last = tonumber(string.match(own[4] or '', '^%d+$') or '')
local known = own[1] == id and age and last
if known and age >= tonumber(ARGV[3]) or not known and ARGV[4] ~= '1' then
  return 0
end
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if known then
  age = age + math.max(0, math.min(now - last, tonumber(ARGV[2])))
else
  age = 0
end
redis.call('HSET', KEYS[1], 'id', id, 'for', ARGV[1], 'age', string.format('%.0f', age), 'last', string.format('%.0f', now))
return 1
