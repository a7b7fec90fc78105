-- Lets the token ARGV[1] hold the first ARGV[3] of KEYS for at least ARGV[2] milliseconds from
-- now, or none of them: sets those that are missing, prolongs those that hold the token already.
-- Never shortens, and writes wherever it returns an integer: see hold.lua.
--
-- With a number in ARGV[4] that is not 0, the sets of the keys' counters follow in KEYS. The score of
-- the member that is called as a key takes the number, unless it is as great, or that of the member "", the floor.
--
-- With a ticket in ARGV[5], marks of other keys follow in KEYS, which its caller holds, and then the
-- keys' own: who has marked one of the first waits for the caller, and is not heeded. A mark says since when somebody waits
-- for several keys (the ticket, microseconds of the nodes' clocks) and who (ARGV[6]). Who asked
-- later takes no key that is marked; ticket 0 is later than all. Who has an ARGV[7] that is not 0
-- marks all keys for so many milliseconds where nobody who asked before has, refused or not: a
-- try may fail at other nodes. With ARGV[7] 0 its own marks go away.
--
-- Returns 1 if the token holds all keys, and 0 if it does and a counter or a floor has as great a number;
-- or {the place of the first key that something else has, what that is, for how many
-- milliseconds, the time in microseconds}; or {the place of a key that holds no string}.
-- Nothing but marks was written then.
local token, ttl, count, number = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local ticket, name = tonumber(ARGV[5]), ARGV[6]
local way
local holders, marks = {}, {}
for i = 1, count do
  local holder = redis.pcall('GET', KEYS[i])
  if type(holder) == 'table' then
    return string.find(holder.err, 'WRONGTYPE', 1, true) and {i} or holder
  end
  if holder and holder ~= token and not way then
    way = {i, holder, redis.call('PTTL', KEYS[i])}
  end
  holders[i] = holder
end
if ticket then
  local waits = {}
  for i = (number == '0' and count or 2 * count) + 1, #KEYS - count do
    local mark = redis.pcall('GET', KEYS[i])
    local by = type(mark) == 'string' and string.match(mark, '^ql:wanted %d+ (%x+)$')
    if by then
      waits[by] = true
    end
  end
  for i = 1, count do
    local key = KEYS[#KEYS - count + i]
    local mark = redis.pcall('GET', key)
    local since, by
    if type(mark) == 'string' then
      since, by = string.match(mark, '^ql:wanted (%d+) (%x+)$')
    end
    since = tonumber(since)
    if mark and not since then
      marks[i] = 'foreign'
    elseif by == name then
      marks[i] = 'own'
    elseif waits[by] then
      marks[i] = 'after'
    elseif since and (ticket == 0 or since < ticket or since == ticket and by < name) then
      marks[i] = 'before'
      if not way and not holders[i] then
        way = {i, mark, redis.call('PTTL', key)}
      end
    end
  end
  local stays = tonumber(ARGV[7]) > 0
  for i = 1, count do
    local key = KEYS[#KEYS - count + i]
    if stays and (not marks[i] or marks[i] == 'own') then
      redis.call('SET', key, string.format('ql:wanted %s %s', ARGV[5], name), 'PX', ARGV[7])
    elseif not stays and marks[i] == 'own' then
      redis.call('DEL', key)
    end
  end
end
if way then
  local time = redis.call('TIME')
  way[4] = time[1] * 1000000 + time[2]
  return way
end
local accepted = 1
for i = 1, number ~= '0' and count or 0 do
  local set = KEYS[count + i]
  local floor = tonumber(redis.call('ZSCORE', set, '') or 0)
  if floor >= tonumber(number) or redis.call('ZADD', set, 'GT', 'CH', number, KEYS[i]) == 0 then
    accepted = 0
  end
end
for i = 1, count do
  if holders[i] then
    redis.call('PEXPIRE', KEYS[i], math.max(redis.call('PTTL', KEYS[i]), ttl))
  else
    redis.call('SET', KEYS[i], token, 'PX', ttl)
  end
end
return accepted
