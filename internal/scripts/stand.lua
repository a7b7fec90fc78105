-- Lets the token ARGV[1] hold KEYS[1] for at least ARGV[2] milliseconds from now, as hold.lua
-- does, unless something else does, or somebody stands in line for it before.
--
-- KEYS[2] is the line: names by their places, which are times in microseconds. KEYS[3] has until
-- when each name stands there, in milliseconds. Who asks is ARGV[3] with the place ARGV[4]; place 0 is
-- behind all. A time in ARGV[5] that is not 0 is for how many milliseconds he stands there, if he
-- is refused; with "1" in ARGV[6], also if he is not: he may have to give back what he gets.
--
-- Returns 1 if the token holds the key, and 2 if others stand in line besides; or {who holds it, for
-- how many milliseconds, the time in microseconds, 1 if nobody is before}. Where the key is free,
-- "ql:line" and the name that is first stand for its holder, and that one is told: see leave.lua. Who
-- is first no longer is told as well: by its place and " behind".
local key, line, live = KEYS[1], KEYS[2], KEYS[3]
local token, ttl, name, place, stays = ARGV[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local holder = redis.call('GET', key)
if holder == token then
  redis.call('PEXPIRE', key, math.max(redis.call('PTTL', key), ttl))
  return 1
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local stood = redis.call('ZSCORE', line, name)
redis.call('ZREM', line, name)
local first, other, at, left -- before all; and the first of the others, which may be the same
for _ = 1, 100 do
  local entry = redis.call('ZRANGE', line, 0, 0, 'WITHSCORES')
  if not entry[1] then
    break
  end
  left = tonumber(redis.call('ZSCORE', live, entry[1]) or 0) - now
  if left > 0 and left < 60000 then -- or the clock was set back since
    other, at = entry[1], entry[2]
    if place == 0 or tonumber(at) < place or tonumber(at) == place and other < name then
      first = other
    end
    break
  end
  redis.call('ZREM', line, entry[1])
  redis.call('ZREM', live, entry[1])
end
local granted = not holder and not first
if stays > 0 and (ARGV[6] == '1' or not granted) then
  redis.call('ZADD', line, ARGV[4], name)
  redis.call('ZADD', live, now + stays, name)
  redis.call('PEXPIRE', line, 2 * stays)
  redis.call('PEXPIRE', live, 2 * stays)
  if other and not first and tonumber(stood) ~= place then
    redis.pcall('PUBLISH', ARGV[7] .. key .. ' ' .. other, at .. ' behind')
  end
elseif stood then
  redis.call('ZREM', live, name)
end
if granted then
  redis.call('SET', key, token, 'PX', ttl)
  return other and 2 or 1
end
if holder then
  left = redis.call('PTTL', key)
else
  holder = 'ql:line ' .. first
  redis.pcall('PUBLISH', ARGV[7] .. key .. ' ' .. first, at .. ' free')
end
return {holder, left, time[1] * 1000000 + time[2], first and 0 or 1}
