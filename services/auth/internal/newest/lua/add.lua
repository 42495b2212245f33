-- KEYS: sorted set. ARGV: name of a key, its places, most places, life of the keys in ms.
-- Returns the names that are the oldest beyond the most places, which the set forgets. A member is the number of a place
-- and a name, its score the time in microseconds.
local time = redis.call('TIME')
-- Redis's clock was set back: what is noted now is the newest all the same.
local last = redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')[2]
local now = math.max(time[1] * 1000000 + time[2], tonumber(last or 0))
for place = 1, tonumber(ARGV[2]) do
  redis.call('ZADD', KEYS[1], string.format('%.0f', now), place .. ' ' .. ARGV[1])
end
redis.call('PEXPIRE', KEYS[1], ARGV[4])
-- Keys beyond their life are gone by themselves.
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('(%.0f', now - ARGV[4] * 1000))
local over = redis.call('ZCARD', KEYS[1]) - tonumber(ARGV[3])
local names = {}
if over > 0 then
  for _, member in ipairs(redis.call('ZRANGE', KEYS[1], 0, over - 1)) do
    names[#names + 1] = string.gsub(member, '^%d+ ', '')
  end
  redis.call('ZREMRANGEBYRANK', KEYS[1], 0, over - 1)
end
return names
