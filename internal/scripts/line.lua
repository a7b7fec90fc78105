-- The line of those who wait for a key. keep.lua goes before it, and take.lua and others behind it.
--
-- A line is a sorted set. A ticket is a class, a number and a Locker's name ("x0:5f…"), by its
-- rank: since when its owner waits, in microseconds of the nodes' clocks, less his priority.
-- Classes: x takes the key alone, with a priority of so many seconds; r reads; s takes several
-- keys, or as many permits as the number says, and has the number of the wait at its end
-- ("s2:5f….7"), for it stands in several lines. Beside a ticket stands "-" and the ticket, by the
-- time in milliseconds until which it counts.
local time = redis.call('TIME')
local micros = time[1] * 1000000 + time[2]
local now = math.floor(micros / 1000)
-- Since when a ticket of this rank rests, or nil; and in how many milliseconds it may next. It
-- rests in the last third of each period of this node's clock. A period is 48 ms, or twice, four
-- times, … as long, and no longer than an eighth of the ticket's age: a new one does not rest, and
-- all that are as old rest together.
local function rests(rank)
  local period, age = 48000, (micros - rank) / 8
  while age >= 2 * period do
    period = 2 * period
  end
  local since = micros - micros % period + period * 2 / 3
  if micros >= since and age >= period then
    return since, math.ceil((since + period - micros) / 1000)
  end
  return nil, math.ceil(math.max(since - micros, 8 * (period - age)) / 1000)
end
-- For how many milliseconds a ticket counts; nil: no longer, and it is gone now.
local function lives(line, ticket)
  local left = tonumber(redis.call('ZSCORE', line, '-' .. ticket) or 0) - now
  if left > 0 and left < 60000 then -- or the clock was set back since
    return left
  end
  redis.call('ZREM', line, ticket, '-' .. ticket)
end
-- The first ticket in the way of own at rank (0: behind all), when to look again at the latest,
-- whether others stand there, and whether one that is before rests. One that waits for what he who asks holds is in nobody's way, nor are
-- those behind it: it stands in one of the lines held, or wants more than most.
local function before(line, own, rank, under, held, most)
  local some, passed, class, from = false, false, string.sub(own, 1, 1), 0
  while true do
    local all = redis.call('ZRANGEBYSCORE', line, '100000000000000', '+inf', 'WITHSCORES', 'LIMIT', from, 8)
    for i = 1, #all, 2 do
      local ticket, at = all[i], tonumber(all[i + 1])
      local left = lives(line, ticket)
      if not left then
        from = from - 1
      elseif ticket ~= own then
        some = true
        if rank > 0 and (at > rank or at == rank and ticket > own) then
          return nil, nil, true, passed
        end
        local kind = string.sub(ticket, 1, 1)
        for j = 1, kind == 's' and #held or 0 do
          if redis.call('ZSCORE', held[j], ticket) then
            return nil, nil, true
          end
        end
        if most and kind == 's' and tonumber(string.match(ticket, '%d+')) > most then
          return nil, nil, true
        end
        if kind ~= 'r' or class ~= 'r' then
          local since, soon
          if kind == 's' then
            since, soon = rests(at)
          elseif kind == 'x' and class == 'r' and under then
            since, soon = rests(at + string.match(ticket, '-?%d+') * 1000000)
          end
          if not since or rank == 0 or rank >= since then
            return ticket, math.min(left, soon or left), true
          end
          passed = true
        end
      end
    end
    if #all < 16 then
      return nil, nil, some, passed
    end
    from = from + 8
  end
end
-- Lets own stand in the line for so many milliseconds. Returns whether it did not stand at this
-- rank.
local function put(line, own, rank, stays)
  local new = redis.call('ZADD', line, 'CH', rank, own) == 1
  redis.call('ZADD', line, now + stays, '-' .. own)
  redis.call('PEXPIRE', line, math.max(redis.call('PTTL', line), stays))
  return new
end
-- Tells who was first that own is first now, by the rank of who was and " behind".
local function displaces(key, line, own, channel)
  local all, first = redis.call('ZRANGEBYSCORE', line, '100000000000000', '+inf', 'WITHSCORES', 'LIMIT', 0, 32), nil
  for i = 1, #all, 2 do
    if first == own and lives(line, all[i]) then
      redis.pcall('PUBLISH', channel .. key .. ' ' .. string.match(all[i], ':(%x*)'), all[i + 1] .. ' behind')
      return
    end
    first = first or lives(line, all[i]) and all[i]
  end
end
-- Tells the first that it is first, by its rank, and with " free" behind that that it may try; if
-- it reads all that do up to the first that does not. These may also try where others read.
local function tell(key, line, channel, holder)
  for _ = 1, 100 do
    local all = redis.call('ZRANGEBYSCORE', line, '100000000000000', '+inf', 'WITHSCORES', 'LIMIT', 0, 32)
    local dead = false
    for i = 1, #all, 2 do
      local reads = string.sub(all[i], 1, 1) == 'r'
      if not lives(line, all[i]) then
        dead = true
      elseif i == 1 or reads then
        redis.pcall('PUBLISH', channel .. key .. ' ' .. string.match(all[i], ':(%x*)'), all[i + 1] .. ((not holder or reads and holder == 'ql:shared') and ' free' or ''))
      end
      if not reads then
        break
      end
    end
    if not dead then
      return
    end
  end
end
