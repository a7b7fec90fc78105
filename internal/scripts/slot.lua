-- Lets the token ARGV[1] hold slots of a semaphore for at least ARGV[2] milliseconds from now: the
-- first ARGV[4] of KEYS, or none of them. As hold.lua does, it sets those that are missing, and
-- prolongs those that hold the token already; never shortens, and writes wherever it says yes. Who has
-- slots prolongs them by hold.lua or take.lua, and the count by hold.lua: this script names keys that
-- need not be there.
--
-- The next key counts the permits, ARGV[3], for all clients. It is set where it is missing, and
-- kept for twice as long as the slots, so no slot outlives it.
--
-- The next key is the line of those who wait for permits: see line.lua. With a rank in ARGV[6] he
-- who asks heeds it. ARGV[7] is his ticket, which he leaves for ARGV[8] milliseconds, if that is
-- not 0. Who wants more permits than ARGV[9] waits for what he holds.
--
-- With a number in ARGV[5] that is not 0, the sets of the slots' counters follow in KEYS: see
-- take.lua.
--
-- Returns 2 if set where one was missing, 1 if the token held all
-- slots already, and 0 if it has them and a counter or a floor has as great a number. If the
-- permits are another number: that number, as a string. If something else has a slot, or a ticket
-- is in the way: {its token, or '' if it is no string, or "ql:line" and the ticket; for the rest of
-- KEYS: the least of their PTTLs, or -1; which of them are there, as a string of a 1 or a 0 for
-- each; the time in microseconds; for how many milliseconds a ticket is in the way, or -1 if others
-- stand in line and none is, or 0}.
local token, ttl, count, number = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[4]), ARGV[5]
local rank = tonumber(ARGV[6])
local counted, sets = KEYS[count + 1], number ~= '0' and count or 0
local permits = redis.call('GET', counted)
if permits and permits ~= ARGV[3] then
  return permits
end
local way
local said, holders, mine = 1, {}, true
for i = 1, count do
  local there = redis.call('EXISTS', KEYS[i]) == 1
  local holder = there and redis.pcall('GET', KEYS[i])
  if there and holder ~= token then
    way = way or type(holder) == 'string' and holder or ''
  end
  if holder ~= token then
    said, mine = 2, false
  end
  holders[i] = holder
end
local kept = 0
if rank and not mine then
  local stays, ticket, left, others = tonumber(ARGV[8]), before(KEYS[count + 2], ARGV[7], rank, false, {}, tonumber(ARGV[9]))
  if ticket then
    kept, way = left, way or 'ql:line ' .. ticket
  elseif others then
    kept = -1
  end
  if stays > 0 then
    put(KEYS[count + 2], ARGV[7], ARGV[6], stays)
  end
end
if way then
  local slots, least = '', -1
  for i = count + 3 + sets, #KEYS do
    local left = redis.call('PTTL', KEYS[i])
    slots = slots .. (left == -2 and '0' or '1')
    if left >= 0 and (least < 0 or left < least) then
      least = left
    end
  end
  return {way, least, slots, micros, kept}
end
for i = 1, sets do
  local set = KEYS[count + 2 + i]
  local floor = tonumber(redis.call('ZSCORE', set, '') or 0)
  if floor >= tonumber(number) or redis.call('ZADD', set, 'GT', 'CH', number, KEYS[i]) == 0 then
    said = 0
  end
end
redis.call('SET', counted, ARGV[3], 'PX', math.max(redis.call('PTTL', counted), 2 * ttl))
for i = 1, count do
  if holders[i] == token then
    redis.call('PEXPIRE', KEYS[i], math.max(redis.call('PTTL', KEYS[i]), ttl))
  else
    redis.call('SET', KEYS[i], token, 'PX', ttl)
  end
end
return said
