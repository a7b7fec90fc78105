-- Keeps a free key for the first ticket in its line (line.lua): the key's value is "ql:line " and the
-- ticket, for as long as that counts: 1.5 s from now at most, for whoever left it may be dead. So SET NX,
-- which sees no line, does not pass who waits. To scripts a kept key is missing. A ticket for several keys
-- keeps none: it waits for the others, and rests. Nothing is kept by a user who may not look at lines.
local function keep(key, line)
  if redis.acl_check_cmd then -- the ACL's log gets no entry
    local known, may = pcall(redis.acl_check_cmd, 'ZADD', line, '0', '-')
    if not known or not may then
      return
    end
  end
  local time, from = redis.pcall('TIME'), 0
  local now = time[1] and time[1] * 1000 + math.floor(time[2] / 1000)
  while now do
    local all = redis.pcall('ZRANGEBYSCORE', line, '100000000000000', '+inf', 'LIMIT', from, 8)
    for _, ticket in ipairs(all) do
      local left = (tonumber(redis.pcall('ZSCORE', line, '-' .. ticket)) or 0) - now
      if left > 0 and left < 60000 then
        if string.sub(ticket, 1, 1) ~= 's' then
          redis.pcall('ZADD', line, 'XX', 'LT', now + 1500, '-' .. ticket)
          redis.pcall('SET', key, 'ql:line ' .. ticket, 'PX', math.min(left, 1500))
        end
        return
      end
    end
    if #all < 8 then
      return
    end
    from = from + 8
  end
end
local function kept(holder)
  return type(holder) == 'string' and string.sub(holder, 1, 8) == 'ql:line '
end
-- Announces a free key on its channel, if there is one, and keeps it unless nobody hears that; not in a
-- Cluster, which would have to be told the line's name before. Returns whether the user may not publish.
local function announce(channel, key, cluster)
  local reached = not channel and 1 or redis.pcall('PUBLISH', channel .. key, '')
  if type(reached) == 'table' then
    return true
  elseif reached > 0 and not cluster then
    keep(key, string.find(key, '}', 1, true) and 'ql:line=' .. key or 'ql:line:{' .. key .. '}')
  end
end
