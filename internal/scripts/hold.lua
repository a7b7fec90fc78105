-- Lets the token ARGV[1] hold KEYS[1] for at least ARGV[2] milliseconds from now:
-- sets the key where it is missing, prolongs it where it holds the token. Never
-- shortens: an extension that was given up may arrive late.
-- Returns 2 if set, 1 if the token held the key already, 0 if something else does.
local holder = redis.call('GET', KEYS[1])
if not holder then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return 2
end
if holder ~= ARGV[1] then
  return 0
end
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 1
