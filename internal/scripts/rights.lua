-- Asks which commands the server does not run for its user. ARGV[2] has their names, each with the
-- number of its arguments behind it, of which the first is ARGV[1], a key. It is one argument: a
-- client that has not logged in is cut off at the eleventh, and not told why. No command is run, and
-- the ACL's log gets no entry.
--
-- Returns their names, "-" before one that the server does not know, "+" before one that the
-- user's ACL forbids; nothing where the server cannot be asked (acl_check_cmd is there since Redis
-- 7.0).
local check, lacks = redis.acl_check_cmd, {}
for name, count in string.gmatch(check and ARGV[2] or '', '(%l+) (%d)') do
  local args = {}
  for i = 1, tonumber(count) do
    args[i] = ARGV[1]
  end
  local known, may = pcall(check, name, unpack(args))
  if known and not may then
    lacks[#lacks + 1] = '+' .. name
  elseif not known and string.find(type(may) == 'table' and may.err or may, 'Invalid command', 1, true) then
    lacks[#lacks + 1] = '-' .. name
  end
end
return lacks
