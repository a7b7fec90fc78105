-- Takes the name ARGV[1] out of the line KEYS[2], whose times are in KEYS[3]: see stand.lua. With a
-- place in ARGV[3] it stays there, at that place, for ARGV[4] milliseconds. "" is no name.
--
-- Who is first now is told on the channel ARGV[2] with the key and the name at its end: by its place,
-- and by " free" behind that if KEYS[1] is free, so that it has its turn. In that case others who wait for the key are
-- told as well, on the channel with the key at its end, if so many listen there that some of them
-- stand in no line. Returns 1.
local key, line, live, channel = KEYS[1], KEYS[2], KEYS[3], ARGV[2] .. KEYS[1]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if ARGV[3] then
  redis.call('ZADD', line, ARGV[3], ARGV[1])
  redis.call('ZADD', live, now + ARGV[4], ARGV[1])
  redis.call('PEXPIRE', line, 2 * ARGV[4])
  redis.call('PEXPIRE', live, 2 * ARGV[4])
elseif ARGV[1] ~= '' then
  redis.call('ZREM', line, ARGV[1])
  redis.call('ZREM', live, ARGV[1])
end
local free = redis.call('EXISTS', key) == 0
for _ = 1, 100 do
  local entry = redis.call('ZRANGE', line, 0, 0, 'WITHSCORES')
  local first = entry[1]
  if not first then
    break
  end
  local left = tonumber(redis.call('ZSCORE', live, first) or 0) - now
  if left > 0 and left < 60000 then
    redis.pcall('PUBLISH', channel .. ' ' .. first, entry[2] .. (free and ' free' or ''))
    break
  end
  redis.call('ZREM', line, first)
  redis.call('ZREM', live, first)
end
if free then
  local listeners = redis.pcall('PUBSUB', 'NUMSUB', channel)[2]
  if not listeners or listeners > redis.call('ZCARD', line) then
    redis.pcall('PUBLISH', channel, '')
  end
end
return 1
