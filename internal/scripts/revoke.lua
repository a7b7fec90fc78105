-- Puts the tombstone ARGV[2] in the place of ARGV[1] in KEYS[1], for as long as the key would have
-- been there, or for ARGV[3] milliseconds if it has no expiry. So no renewal prolongs the lease of
-- the token that was there, and nobody gets the key before that lease ends. A tombstone, this one
-- or another, stays for at least ARGV[4] milliseconds from now.
--
-- With KEYS[2], the readers of the key (see share.lua), it is done only while one of the readers
-- behind ARGV[4] has the key.
--
-- Returns a list: 1 if a tombstone has the key now, or 0; and the key's PTTL.
local key = KEYS[1]
local holder = redis.call('GET', key)
if not holder or string.sub(holder, 1, 11) ~= 'ql:revoked:' then
  local found = holder == ARGV[1]
  if found and KEYS[2] then
    local time = redis.call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    found = false
    for i = 5, #ARGV do
      local expiry = redis.call('ZSCORE', KEYS[2], ARGV[i])
      found = found or expiry and tonumber(expiry) >= now
    end
  end
  if not found then
    local kept = holder and string.sub(holder, 1, 8) == 'ql:line ' -- see keep.lua
    return {0, kept and -2 or redis.call('PTTL', key)}
  end
  redis.call('SET', key, ARGV[2], 'KEEPTTL')
end
local left = redis.call('PTTL', key)
local least = tonumber(left == -1 and ARGV[3] or ARGV[4])
if left < least then
  redis.call('PEXPIRE', key, least)
  left = least
end
return {1, left}
