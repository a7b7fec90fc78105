-- Makes the reader ARGV[1] of KEYS[1], if it is the only one, its writer ARGV[2] for at least
-- ARGV[3] milliseconds from now. KEYS[2] are its readers: see share.lua. Never shortens a lease.
-- Returns a list: 1 if the writer has the key now, also where nobody had it; or 0, who has it, and
-- for how many milliseconds at least.
local key, readers = KEYS[1], KEYS[2]
local ttl = tonumber(ARGV[3])
local holder = redis.call('GET', key)
local left = redis.call('PTTL', key)
if holder and string.sub(holder, 1, 8) == 'ql:line ' then -- kept for the first in line: see keep.lua
  holder, left = false, -2
end
if holder == 'ql:shared' then
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  local own = redis.call('ZSCORE', readers, ARGV[1])
  if not own or tonumber(own) < now or redis.call('ZCOUNT', readers, now, '+inf') > 1 then
    return {0, holder, left}
  end
elseif holder and holder ~= ARGV[2] then
  return {0, holder, left}
end
if redis.call('ZCARD', readers) > 0 then -- an error if it is no sorted set
  redis.call('UNLINK', readers)
end
redis.call('SET', key, ARGV[2], 'PX', math.max(ttl, left))
return {1}
