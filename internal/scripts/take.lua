-- Lets the token ARGV[1] hold the first ARGV[3] of KEYS for at least ARGV[2] milliseconds from now,
-- or none: sets those that are missing, and prolongs those that hold the token. Never shortens, and
-- writes wherever it returns an integer: see hold.lua.
--
-- With a number in ARGV[4] that is not 0, the sets of the keys' counters follow in KEYS. The score
-- of the member that is called as a key takes the number, unless it is as great, or that of the
-- member "", the floor.
--
-- With a rank in ARGV[5] it heeds those who stand in line, see line.lua: the keys' lines follow in
-- KEYS, and then those of what he who asks holds. ARGV[6] is his ticket, which he leaves for ARGV[7]
-- milliseconds, if that is not 0. Who gets one key alone takes it away: leave.lua puts it back, if he has to
-- give back the key. Who is first now is told so, and so is who was first before: by his rank and
-- " behind". ARGV[8] is "1" if he works under locks, and ARGV[9] the channel. Who has
-- the keys already heeds nobody.
--
-- Returns 1, or 2 if others stand in line; negative where a counter or a floor has as great a number; or
-- {the place of the first key in the way, what is there ("ql:line" and a ticket, if it is free), for how many
-- milliseconds, the time in microseconds, 1 if no ticket is before, and 2 more if he has left his}; or {the
-- place of a key that holds no string}.
local token, ttl, count, number = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local rank, own, stays = tonumber(ARGV[5]), ARGV[6], tonumber(ARGV[7])
local sets = number ~= '0' and count or 0
local lines = count + sets
local way, mine, holders = nil, true, {}
for i = 1, count do
  local holder = redis.pcall('GET', KEYS[i])
  if type(holder) == 'table' then
    return string.find(holder.err, 'WRONGTYPE', 1, true) and {i} or holder
  end
  if kept(holder) then
    holder = false
  end
  if holder ~= token then
    mine = false
    if holder and not way then
      way = {i, holder, redis.call('PTTL', KEYS[i])}
    end
  end
  holders[i] = holder
end
local some, first, free = false, 1, nil
if rank and not mine then
  local held = {}
  for i = lines + count + 1, #KEYS do
    held[#held + 1] = KEYS[i]
  end
  for i = 1, count do
    local ticket, soon, others, passed = before(KEYS[lines + i], own, rank, ARGV[8] == '1', held)
    some = some or others
    if ticket or passed then
      first = 0
    end
    if ticket then
      if not holders[i] then
        way = way or {i, 'ql:line ' .. ticket, soon}
        free = free or string.sub(ticket, 1, 1) ~= 's' and i -- a set may wait for another key
      end
    end
  end
  local new
  for i = lines + 1, stays > 0 and lines + count or 0 do
    if way or count > 1 then
      new = put(KEYS[i], own, ARGV[5], stays)
    elseif lives(KEYS[i], own) then
      redis.call('ZREM', KEYS[i], own, '-' .. own)
      tell(KEYS[i - lines], KEYS[i], ARGV[9], token)
    end
  end
  if new and some and count == 1 then
    displaces(KEYS[1], KEYS[lines + 1], own, ARGV[9])
  end
end
if way then
  if free then
    tell(KEYS[free], KEYS[lines + free], ARGV[9])
    keep(KEYS[free], KEYS[lines + free])
  end
  way[4], way[5] = micros, stays and stays > 0 and first + 2 or first
  return way
end
local said, low = some and 2 or 1, false
for i = 1, sets do
  local set = KEYS[count + i]
  local floor = tonumber(redis.call('ZSCORE', set, '') or 0)
  if floor >= tonumber(number) or redis.call('ZADD', set, 'GT', 'CH', number, KEYS[i]) == 0 then
    low = true
  end
end
for i = 1, count do
  if holders[i] then
    redis.call('PEXPIRE', KEYS[i], math.max(redis.call('PTTL', KEYS[i]), ttl))
  else
    redis.call('SET', KEYS[i], token, 'PX', ttl)
  end
end
return low and -said or said
