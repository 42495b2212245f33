-- KEYS: fence. ARGV: new token, lifetime in ms.
local token = redis.call('GET', KEYS[1]) or ARGV[1]
redis.call('SET', KEYS[1], token, 'PX', ARGV[2])
return token
