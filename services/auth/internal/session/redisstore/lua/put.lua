-- KEYS: pending login, ceremony or hand-over. ARGV: lifetime in ms, field, value, ...
redis.call('HSET', KEYS[1], unpack(ARGV, 2))
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 1
