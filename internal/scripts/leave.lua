-- Takes the ticket ARGV[1] out of the lines that are the second half of KEYS, whose keys are the
-- first, or the same if there is none: see line.lua. "" is no ticket. With a rank in ARGV[4] the
-- ticket ARGV[5] of the same process stands there from now on, for ARGV[6] milliseconds.
--
-- Who is first now is told on the channel ARGV[2] with the key and his name at its end, and a free
-- key is kept for him: see keep.lua. Where the key is free all who listen to it are told as well, on
-- the channel with the key at its end, if more Lockers do than stand there. Returns 1.
--
-- With a token in ARGV[3] it first deletes KEYS[1] if that holds the token, and returns 0 if not; with a
-- rank as well, the token is that of a try that has failed, and nobody is told. A Redis Cluster is called
-- twice, with the key and the token alone at first: while it moves a slot, it refuses a call that names a
-- missing key beside one that is there. It is one script, so that a server which does not know it refuses
-- both calls.
local channel, token, said = ARGV[2], ARGV[3], 1
if token ~= '' then
  local holder = redis.pcall('GET', KEYS[1])
  if type(holder) == 'table' and not string.find(holder.err, 'WRONGTYPE', 1, true) then
    return holder -- refused; a key of another type holds no token
  end
  said = holder == token and redis.call('DEL', KEYS[1]) or 0
end
-- How many Lockers stand in a line, of which there may be many.
local function names(line)
  local known, count = {}, 0
  for _, lasts in ipairs(redis.call('ZRANGEBYSCORE', line, '(' .. now, '(' .. now + 60000, 'LIMIT', 0, 64)) do
    local name = string.match(lasts, ':(%x*)')
    count = count + (known[name] and 0 or 1)
    known[name] = true
  end
  return count
end
local count = math.floor(#KEYS / 2)
local back = token ~= '' and ARGV[4] -- a try has failed: nothing is new to anybody
for i = 1, count do
  local key, line = KEYS[i], KEYS[count + i]
  if ARGV[1] ~= '' then
    redis.call('ZREM', line, ARGV[1], '-' .. ARGV[1])
  end
  if ARGV[4] and put(line, ARGV[5], ARGV[4], tonumber(ARGV[6])) then
    displaces(key, line, ARGV[5], channel)
  end
  local holder = key ~= line and redis.pcall('GET', key)
  if kept(holder) then
    redis.call('DEL', key)
    holder = false
  end
  if not back then
    tell(key, line, channel, holder)
  end
  if not holder and key ~= line then
    keep(key, line)
  end
  if not holder and not back then
    local listeners = redis.pcall('PUBSUB', 'NUMSUB', channel .. key)[2]
    if not listeners or listeners > names(line) then
      redis.pcall('PUBLISH', channel .. key, '')
    end
  end
end
return said
