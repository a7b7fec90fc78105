-- Prolongs those of KEYS that hold the token in the same place of ARGV, to at least as many
-- milliseconds from now as stand behind the tokens, in the same order; sets those that are
-- missing. Never shortens, and writes wherever it says yes: see hold.lua, which does the same
-- for one key. All keys are read before one is written, so an error (a key of another type)
-- means that nothing was.
-- Returns the sum of 2^(i-1) over the i that hold their token now, of which there may be 32.
local holders = {}
for i, key in ipairs(KEYS) do
  holders[i] = redis.call('GET', key)
  if holders[i] and string.sub(holders[i], 1, 8) == 'ql:line ' then -- kept for the first in line: see keep.lua
    holders[i] = false
  end
end
local held, bit = 0, 1
for i, key in ipairs(KEYS) do
  local token, ttl = ARGV[i], ARGV[#KEYS + i]
  if holders[i] == token then
    redis.call('PEXPIRE', key, math.max(redis.call('PTTL', key), tonumber(ttl)))
    held = held + bit
  elseif not holders[i] then
    redis.call('SET', key, token, 'PX', ttl)
    held = held + bit
  end
  bit = bit + bit
end
return held
