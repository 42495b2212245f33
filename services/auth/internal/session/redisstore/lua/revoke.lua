-- KEYS: set, fence. ARGV: prefix of session keys, key to keep, most sessions that
-- end in one step. Returns {sessions ended, sessions left to end}.
redis.call('UNLINK', KEYS[2])
local ended = 0
for _, key in ipairs(redis.call('ZRANGE', KEYS[1], 0, ARGV[3])) do
  if key ~= ARGV[2] then
    ended = ended + redis.call('UNLINK', ARGV[1] .. key)
    redis.call('ZREM', KEYS[1], key)
  end
end
local left = redis.call('ZCARD', KEYS[1])
if redis.call('ZSCORE', KEYS[1], ARGV[2]) then
  left = left - 1
end
return {ended, left}
