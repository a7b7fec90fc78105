-- Deletes KEYS[1] if it holds the token ARGV[1].
-- Returns 1 if deleted, 0 if the token is not there.
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
