-- KEYS: session, set. ARGV: key.
redis.call('ZREM', KEYS[2], ARGV[1])
return redis.call('UNLINK', KEYS[1])
