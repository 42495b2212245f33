-- KEYS: list. ARGV: name of a key, its places, most places, life of the keys in ms.
-- Returns the names that are the oldest beyond the most places, which the list forgets. An entry is the time in ms and
-- a name.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for _ = 1, tonumber(ARGV[2]) do
  redis.call('RPUSH', KEYS[1], string.format('%.0f ', now) .. ARGV[1])
end
redis.call('PEXPIRE', KEYS[1], ARGV[4])
-- Keys beyond their life are gone by themselves.
local function oldest()
  return tonumber(string.match(redis.call('LINDEX', KEYS[1], 0), '^%d+'))
end
while oldest() + tonumber(ARGV[4]) < now do
  redis.call('LPOP', KEYS[1])
end
local over = redis.call('LLEN', KEYS[1]) - tonumber(ARGV[3])
if over <= 0 then
  return {}
end
local entries = redis.call('LRANGE', KEYS[1], 0, over - 1)
redis.call('LTRIM', KEYS[1], over, -1)
local names = {}
for i, entry in ipairs(entries) do
  names[i] = string.gsub(entry, '^%d+ ', '')
end
return names
