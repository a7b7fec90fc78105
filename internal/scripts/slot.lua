-- Lets the token ARGV[1] hold slots of a semaphore for at least ARGV[2] milliseconds from now: the
-- first ARGV[4] of KEYS, or none of them. As hold.lua does, it sets those that are missing, or that
-- hold the token ARGV[9], if there is one; prolongs those that hold the token already; never
-- shortens, and writes wherever it says yes.
--
-- The next key counts the permits, ARGV[3], for all clients. It is set where it is missing, and
-- kept for twice as long as the slots, so no slot outlives it.
--
-- The next key is the mark of one who waits for several permits: since when (a ticket, microseconds
-- of the nodes' clocks) and who. With a ticket in ARGV[6] (of ARGV[7]) who asked later gets no slot
-- beside a mark; ticket 0 is later than all. With an ARGV[8] that is not 0 it leaves its own mark for so
-- many milliseconds where nobody who asked before has, refused or not: see holdall.lua. Who wants one
-- slot does so only where it is refused.
--
-- With a number in ARGV[5] that is not 0, the sets of the slots' counters follow in KEYS: see holdall.lua.
--
-- Returns 3 if taken over from ARGV[9], 2 if set where one was missing, 1 if the token held all slots
-- already, and 0 if it has them and a counter or a floor has as great a number. If the permits are another
-- number: that number, as a string. If something else has a slot, or a mark is in the way: {its
-- token, or '' if it is no string; for the rest of KEYS: the least of their PTTLs, or -1; which of
-- them are there, as a string of a 1 or a 0 for each; the time in microseconds; for how many
-- milliseconds a mark is in the way, or 0}.
local token, ttl, count, number, old = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[4]), ARGV[5], ARGV[9]
local ticket, name = tonumber(ARGV[6]), ARGV[7]
local counted, marked, sets = KEYS[count + 1], KEYS[count + 2], number ~= '0' and count or 0
local permits = redis.call('GET', counted)
if permits and permits ~= ARGV[3] then
  return permits
end
local way
local said, holders, mine = 1, {}, true
for i = 1, count do
  local there = redis.call('EXISTS', KEYS[i]) == 1
  local holder = there and redis.pcall('GET', KEYS[i])
  if there and holder ~= token and (holder ~= old or not old) then
    way = way or type(holder) == 'string' and holder or ''
  end
  if holder ~= token then
    said, mine = there and 3 or 2, false
  end
  holders[i] = holder
end
local kept = 0
if ticket then
  local mark = redis.pcall('GET', marked)
  local since, by
  if type(mark) == 'string' then
    since, by = string.match(mark, '^ql:wanted (%d+) (%x+)$')
  end
  since = tonumber(since)
  if since and by ~= name and (ticket == 0 or since < ticket or since == ticket and by < name) then
    kept = redis.call('PTTL', marked)
    way = way or not mine and mark
  elseif tonumber(ARGV[8]) > 0 and (since or not mark) and (way or count > 1) then
    redis.call('SET', marked, string.format('ql:wanted %s %s', ARGV[6], name), 'PX', ARGV[8])
  elseif by == name and ARGV[8] == '0' then
    redis.call('DEL', marked)
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
  local time = redis.call('TIME')
  return {way, least, slots, time[1] * 1000000 + time[2], kept}
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
