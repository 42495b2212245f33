-- KEYS: windows. ARGV: attempt.
-- Returns {0, attempts, ms to the end, ... of each window}.
local reply = {0}
for _, window in ipairs(KEYS) do
  redis.call('SREM', window, ARGV[1])
  reply[#reply + 1] = redis.call('SCARD', window)
  reply[#reply + 1] = redis.call('PTTL', window)
end
return reply
