-- Shows the fence ARGV[1] to the account KEYS[1], and sets its balance to ARGV[2] if that
-- is given, unless a greater fence was shown before.
-- Returns the balance and the fence that are there then: a greater fence refused this one.
--
-- Numbers are floats here. They compare exactly below 2^53, where fences are, but lose
-- digits when they are made text: so the account gets the text that came.
if tonumber(redis.call('HGET', KEYS[1], 'fence')) <= tonumber(ARGV[1]) then
  redis.call('HSET', KEYS[1], 'fence', ARGV[1])
  if ARGV[2] then
    redis.call('HSET', KEYS[1], 'balance', ARGV[2])
  end
end
return redis.call('HMGET', KEYS[1], 'balance', 'fence')
