-- Takes the ticket ARGV[1] out of the lines that are the second half of KEYS, whose keys are the
-- first, or the same if there is none: see line.lua. "" is no ticket. With a token in ARGV[3] it
-- deletes those keys before that hold it.
--
-- Who is first now is told on the channel ARGV[2] with the key and his name at its end. Where the
-- key is free all who listen to it are told as well, on the channel with the key at its end, if
-- more Lockers do than stand there. Returns 1, or 0 if a token was given and no key held it.
local channel, token = ARGV[2], ARGV[3]
-- How many Lockers stand in a line, of which there may be many.
local function names(line)
  local known, count = {}, 0
  for _, ticket in ipairs(redis.call('ZRANGEBYSCORE', line, '100000000000000', '+inf', 'LIMIT', 0, 64)) do
    local name = string.match(ticket, ':(%x*)')
    count = count + (known[name] and 0 or 1)
    known[name] = true
  end
  return count
end
local count, said = #KEYS / 2, token == '' and 1 or 0
for i = 1, count do
  local key, line = KEYS[i], KEYS[count + i]
  if ARGV[1] ~= '' then
    redis.call('ZREM', line, ARGV[1], '-' .. ARGV[1])
  end
  local holder = key ~= line and redis.pcall('GET', key)
  if holder and holder == token then
    redis.call('DEL', key)
    holder, said = false, 1
  end
  tell(key, line, channel, holder)
  if not holder then
    local listeners = redis.pcall('PUBSUB', 'NUMSUB', channel .. key)[2]
    if not listeners or listeners > names(line) then
      redis.pcall('PUBLISH', channel .. key, '')
    end
  end
end
return said
