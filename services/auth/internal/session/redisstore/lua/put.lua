-- KEYS: pending login or ceremony. ARGV: lifetime in ms, field, value, ...
redis.call('HSET', KEYS[1], unpack(ARGV, 2))
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 1
