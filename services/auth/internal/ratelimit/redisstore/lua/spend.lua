-- KEYS: window. ARGV: attempt, limit, length in ms.
-- Answers {taken, attempts, ms to the end}.
local window = KEYS[1]
local attempts = redis.call('SCARD', window)
if redis.call('SISMEMBER', window, ARGV[1]) == 0 then
  if attempts >= tonumber(ARGV[2]) then
    return {0, attempts, redis.call('PTTL', window)}
  end
  redis.call('SADD', window, ARGV[1])
  if attempts == 0 then
    redis.call('PEXPIRE', window, ARGV[3])
  end
  attempts = attempts + 1
end
return {1, attempts, redis.call('PTTL', window)}
