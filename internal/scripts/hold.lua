-- Lets the token ARGV[1] hold KEYS[1] for at least ARGV[2] milliseconds from now: sets
-- the key where it is missing, or holds the token ARGV[3], if there is one, whose holder
-- gives it away; prolongs it where it holds the token already. Never shortens: an
-- extension that was given up may arrive late. Writes wherever it does not return 0, or
-- a WAIT behind it would answer for a connection that has written nothing.
-- Returns 3 if taken over from ARGV[3], 2 if set where it was missing, 1 if the token
-- held the key already, 0 if something else does.
local holder = redis.call('GET', KEYS[1])
if holder and string.sub(holder, 1, 8) == 'ql:line ' then -- kept for the first in line: see keep.lua
  holder = false
end
if holder == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], math.max(redis.call('PTTL', KEYS[1]), tonumber(ARGV[2])))
  return 1
end
if holder and holder ~= ARGV[3] then
  return 0
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return holder and 3 or 2
