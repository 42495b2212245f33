-- KEYS: window. ARGV: attempt.
-- Answers {0, attempts, ms to the end}.
redis.call('SREM', KEYS[1], ARGV[1])
return {0, redis.call('SCARD', KEYS[1]), redis.call('PTTL', KEYS[1])}
