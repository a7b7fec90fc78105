-- Lets tokens share KEYS[1], each for at least ARGV[1] milliseconds from now. KEYS[2] are its
-- readers, a sorted set of tokens by their expiry in this node's milliseconds; KEYS[3] is the
-- mark of a writer that waits; KEYS[4], if there is one, is the set of the counter of its fences.
-- The key holds "ql:shared" while it has readers, and expires with the last of them. Its readers
-- count only while it does. Never shortens a lease, and writes wherever it says yes: see hold.lua.
--
-- ARGV[2] says how:
--   join   newcomers keep out while there is a mark
--   stay   nobody does
--   turn   nobody does, and a writer's token, the last argument, becomes a reader
--   back   the same, only where that token has the key
-- With a set, ARGV[3] is a number. A counter that is missing gets it; "join" never raises one that is
-- there. Then come the tokens, up to 32.
--
-- Returns a list: the sum of 2^(i-1) over the i of the tokens that share the key now; the counter, or
-- the floor of its set if that is greater; who keeps the others out; and for how many milliseconds at least.
local key, readers, set, mode = KEYS[1], KEYS[2], KEYS[4], ARGV[2]
local first, last = set and 4 or 3, #ARGV
local old
if mode == 'turn' or mode == 'back' then
  old, last = ARGV[last], last - 1
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local till = now + tonumber(ARGV[1])
local holder = redis.call('GET', key)
local turns = holder and holder == old
if holder and holder ~= 'ql:shared' and not turns or mode == 'back' and not turns then
  return {0, false, holder, redis.call('PTTL', key)}
end
local shared = holder == 'ql:shared'
local stale = not shared and redis.call('ZCARD', readers) > 0 -- an error if it is no sorted set
if turns then
  till = math.max(till, now + redis.call('PTTL', key))
end

local mark = mode == 'join' and redis.pcall('GET', KEYS[3])
if type(mark) ~= 'string' or string.sub(mark, 1, 3) ~= 'ql:' then
  mark = false -- none, or nobody's
end
local bits, bit, joins = 0, 1, {}
for i = first, last do
  local expiry = mark and shared and redis.call('ZSCORE', readers, ARGV[i])
  if not mark or expiry and tonumber(expiry) >= now then
    joins[#joins + 1] = till
    joins[#joins + 1] = ARGV[i]
    bits = bits + bit
  end
  bit = bit + bit
end
if bits == 0 then
  return {0, false, mark, redis.call('PTTL', KEYS[3])}
end

if stale then
  redis.call('UNLINK', readers)
elseif shared then -- a few at a time, so that no call takes long
  local dead = redis.call('ZRANGEBYSCORE', readers, '-inf', now - 1, 'LIMIT', 0, 64)
  if #dead > 0 then
    redis.call('ZREM', readers, unpack(dead))
  end
end
redis.call('ZADD', readers, 'GT', unpack(joins))
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
return {bits, number, mark, mark and redis.call('PTTL', KEYS[3]) or 0}
