-- KEYS: windows. ARGV: attempt, length in ms, limit of each window.
-- Returns {taken, attempts, ms to the end, ... of each window}.
local taken = 1
for i, window in ipairs(KEYS) do
  -- Redis's clock was set back: without this the window would be longer by as much.
  if redis.call('PTTL', window) > tonumber(ARGV[2]) then
    redis.call('PEXPIRE', window, ARGV[2])
  end
  if redis.call('SCARD', window) >= tonumber(ARGV[2 + i]) and redis.call('SISMEMBER', window, ARGV[1]) == 0 then
    taken = 0
  end
end
local reply = {taken}
for _, window in ipairs(KEYS) do
  if taken == 1 and redis.call('SADD', window, ARGV[1]) == 1 and redis.call('SCARD', window) == 1 then
    redis.call('PEXPIRE', window, ARGV[2])
  end
  reply[#reply + 1] = redis.call('SCARD', window)
  reply[#reply + 1] = redis.call('PTTL', window)
end
return reply
