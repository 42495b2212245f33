-- KEYS: list. ARGV: name of a key, its places, most places, life of the list in ms.
-- Returns the names that are the oldest beyond the most places, which the list forgets.
for _ = 1, tonumber(ARGV[2]) do
  redis.call('RPUSH', KEYS[1], ARGV[1])
end
redis.call('PEXPIRE', KEYS[1], ARGV[4])
local over = redis.call('LLEN', KEYS[1]) - tonumber(ARGV[3])
if over <= 0 then
  return {}
end
local oldest = redis.call('LRANGE', KEYS[1], 0, over - 1)
redis.call('LTRIM', KEYS[1], over, -1)
return oldest
