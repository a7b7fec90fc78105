-- Keeps who waits under the lock on a key: the hash KEYS[1] has a field for each Locker that has
-- such waits, and the field "nonces", with a line for each who looks for a deadlock. A field or
-- line begins with until when it counts, by this node's clock in milliseconds, and a space.
--
-- Sets the field ARGV[1], or the line of who is called so, to ARGV[2], for ARGV[3] milliseconds; ""
-- in ARGV[2] takes it away. It is a line if its name begins with "nonce:". Costs the same however
-- many fields there are. Without arguments nothing is set, and fields whose time is over go away.
--
-- Returns {the time in microseconds, the nonces that count, with spaces between, field, what it
-- says, …}: the fields only to who sets nothing.
local key, name, says, life = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function counts(till)
  local left = tonumber(till or 0) - now
  return left > 0 and left <= 300000 -- or the clock was set back since
end
local text = says and says ~= '' and string.format('%.0f %s', now + life, says)
local asks = says and string.sub(name, 1, 6) == 'nonce:'
local lines, nonces = '', {}
for till, who, nonce in string.gmatch(redis.call('HGET', key, 'nonces') or '', '(%d+) (%S+) (%S+)\n') do
  if counts(till) and not (asks and who == name) then
    lines = lines .. till .. ' ' .. who .. ' ' .. nonce .. '\n'
    nonces[#nonces + 1] = nonce
  end
end
if asks then
  if text then
    lines = lines .. string.format('%.0f %s %s\n', now + life, name, says)
    nonces[#nonces + 1] = says
  end
  name, text = 'nonces', lines ~= '' and lines
end
if text then
  redis.call('HSET', key, name, text)
  redis.call('PEXPIRE', key, math.max(redis.call('PTTL', key), life))
elseif says then
  redis.call('HDEL', key, name)
end
local found = {time[1] * 1000000 + time[2], table.concat(nonces, ' ')}
local all = says and {} or redis.call('HGETALL', key)
for i = 1, #all, 2 do
  local till, text = string.match(all[i + 1], '^(%d+) (.*)$')
  if all[i] ~= 'nonces' then
    if counts(till) then
      found[#found + 1] = all[i]
      found[#found + 1] = text
    else
      redis.call('HDEL', key, all[i])
    end
  end
end
return found
