-- Keeps who waits under the lock on a key: the hash KEYS[1] has a field for each such wait, and one for
-- each nonce of somebody who looks for a deadlock. A field's value is until when it counts, by this
-- node's clock in milliseconds, and behind a space what it says.
--
-- Sets the field ARGV[1] to ARGV[2], for ARGV[3] milliseconds; "" in ARGV[2] takes it away. Without
-- arguments nothing is set. Returns {the time in microseconds, field, what it says, field, …}, of the
-- fields that count; to who sets one, of the nonces alone.
local key, field, says, life = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if says == '' then
  redis.call('HDEL', key, field)
elseif says then
  redis.call('HSET', key, field, string.format('%.0f %s', now + life, says))
end
local found = {time[1] * 1000000 + time[2]}
local all = redis.call('HGETALL', key)
for i = 1, #all, 2 do
  local till, text = string.match(all[i + 1], '^(%d+) (.*)$')
  local left = tonumber(till or 0) - now
  if left > 0 and left <= 300000 then -- or the clock was set back since
    if not says or string.sub(all[i], 1, 6) == 'nonce:' then
      found[#found + 1] = all[i]
      found[#found + 1] = text
    end
  elseif says then
    redis.call('HDEL', key, all[i])
  end
end
if says and says ~= '' then
  redis.call('PEXPIRE', key, math.max(redis.call('PTTL', key), life))
end
return found
