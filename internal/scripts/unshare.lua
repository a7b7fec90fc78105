-- Takes the first ARGV[1] tokens behind it off KEYS[1], whose readers are KEYS[2]: see share.lua.
-- A token that has the key alone is taken off as well. Without a reader the key is deleted.
-- Returns the sum of 2^(i-1) over the i of the tokens that had the key, of which there may be 32.
--
-- The readers are left alone once the last of them has gone: a Redis Cluster that moves their slot
-- stops a script that looks at a key which is not there, and what it has done stays.
--
-- With a channel behind the tokens, a deleted key is announced, and the result is as that of
-- release.lua.
local key, readers, count = KEYS[1], KEYS[2], tonumber(ARGV[1])
local channel, always = ARGV[count + 2], ARGV[count + 3]
local gone, bit, free, refused = 0, 1, false, false
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local holder = redis.pcall('GET', key)
if type(holder) == 'table' then
  if not string.find(holder.err, 'WRONGTYPE', 1, true) then
    return holder
  end
  holder = false -- a key of another type has no token
end
local shared = holder == 'ql:shared'
local left = redis.call('ZCARD', readers)
for i = 2, count + 1 do
  local expiry = left > 0 and redis.call('ZSCORE', readers, ARGV[i])
  if expiry then
    redis.call('ZREM', readers, ARGV[i])
    left = left - 1
  end
  if shared and expiry and tonumber(expiry) >= now then
    gone = gone + bit
  elseif holder == ARGV[i] and not shared then
    redis.call('DEL', key)
    gone, free = gone + bit, true
  end
  bit = bit + bit
end
if shared and gone > 0 then
  local ends = left > 0 and redis.call('ZRANGE', readers, -1, -1, 'WITHSCORES')[2]
  if ends and tonumber(ends) >= now then
    redis.call('PEXPIREAT', key, ends)
    redis.call('PEXPIREAT', readers, ends)
  else
    redis.call('DEL', key)
    if left > 0 then
      redis.call('UNLINK', readers)
    end
    free = true
  end
end
if channel then
  local listeners = always and 1 or redis.pcall('PUBSUB', 'NUMSUB', channel)[2] or 1
  gone = gone + math.min(listeners, 2 ^ 20) * 2 ^ 32
  refused = free and listeners > 0 and announce(channel, key, always)
elseif free then
  announce(nil, key)
end
return refused and -1 - gone or gone
