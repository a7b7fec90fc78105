-- Lets tokens share KEYS[1], each for at least ARGV[1] milliseconds from now. KEYS[2] are its
-- readers, a sorted set of tokens by their expiry in this node's milliseconds. To join, KEYS[3] is
-- the line of those who wait: see line.lua. Nobody else names it, for it need not be there: a Redis
-- Cluster refuses who names such a key beside one that is, while it moves their slot.
-- The key holds "ql:shared" while it has readers, and expires with the last of them. Its readers
-- count only while it does. Never shortens a lease, and writes wherever it says yes: see hold.lua.
--
-- ARGV[2] says how:
--   join   newcomers heed those who stand in line
--   stay   nobody does
--   turn   nobody does, and a writer's token, the last argument, becomes a reader
--   back   the same, only where that token has the key
-- With a number in ARGV[3] that is not 0, the next key is the set of the key's counter. A counter that
-- is missing gets it; "join" never raises one that is there. To join, ARGV[4] is the newcomers'
-- rank and ARGV[5] their ticket, which they leave for ARGV[6] milliseconds, if that is not 0;
-- ARGV[7] is "1" if they work under locks, and the lines of these are the rest of KEYS. Then come
-- the tokens, up to 32.
--
-- Returns a list: the sum of 2^(i-1) over the i of the tokens that share the key now; the counter,
-- or the floor of its set if that is greater; who keeps the others out ("ql:line" and a ticket, if
-- nobody has the key alone); for how many milliseconds at least; for how many a ticket is in the
-- way, or -1 if others stand in line and none is, or 0; and the time in microseconds.
local key, readers, mode = KEYS[1], KEYS[2], ARGV[2]
local line = mode == 'join' and KEYS[3]
local rest = line and 4 or 3
local set = ARGV[3] ~= '0' and KEYS[rest]
local first, last = mode == 'join' and 8 or 4, #ARGV
local old
if mode == 'turn' or mode == 'back' then
  old, last = ARGV[last], last - 1
end
local till = now + tonumber(ARGV[1])
local holder = redis.call('GET', key)
if kept(holder) then
  holder = false
end
local turns = holder and holder == old
local ticket, kept = nil, 0
if mode == 'join' then
  local held, stays, others = {}, tonumber(ARGV[6]), nil
  for i = set and rest + 1 or rest, #KEYS do
    held[#held + 1] = KEYS[i]
  end
  ticket, kept, others = before(line, ARGV[5], tonumber(ARGV[4]), ARGV[7] == '1', held)
  kept = kept or others and -1 or 0
  if stays > 0 then
    put(line, ARGV[5], ARGV[4], stays)
  end
  if ticket and not holder then
    keep(key, line)
  end
end
if holder and holder ~= 'ql:shared' and not turns or mode == 'back' and not turns then
  return {0, false, holder, holder and redis.call('PTTL', key) or -2, kept, micros}
end
local shared = holder == 'ql:shared'
local stale = not shared and redis.call('ZCARD', readers) > 0 -- an error if it is no sorted set
if turns then
  till = math.max(till, now + redis.call('PTTL', key))
end

local bits, bit, joins = 0, 1, {}
for i = first, last do
  local expiry = ticket and shared and redis.call('ZSCORE', readers, ARGV[i])
  if not ticket or expiry and tonumber(expiry) >= now then
    joins[#joins + 1] = till
    joins[#joins + 1] = ARGV[i]
    bits = bits + bit
  end
  bit = bit + bit
end
local way = ticket and 'ql:line ' .. ticket or false
if bits == 0 then
  return {0, false, way, kept, kept, micros}
end

if stale then
  redis.call('UNLINK', readers)
end
redis.call('ZADD', readers, 'GT', unpack(joins))
if shared then -- a few at a time, so that no call takes long; behind ZADD, or none might be left: see unshare.lua
  local dead = redis.call('ZRANGEBYSCORE', readers, '-inf', now - 1, 'LIMIT', 0, 64)
  if #dead > 0 then
    redis.call('ZREM', readers, unpack(dead))
  end
end
local ends = redis.call('ZRANGE', readers, -1, -1, 'WITHSCORES')[2]
if shared then
  redis.call('PEXPIREAT', key, ends)
else
  redis.call('SET', key, 'ql:shared', 'PXAT', ends)
end
redis.call('PEXPIREAT', readers, ends)
local number = false
if set then
  redis.call('ZADD', set, mode == 'join' and 'NX' or 'GT', ARGV[3], key)
  local floor = redis.call('ZSCORE', set, '')
  number = redis.call('ZSCORE', set, key)
  if floor and tonumber(floor) > tonumber(number) then
    number = floor
  end
end
return {bits, number, way, way and kept or 0, kept, micros}
