-- KEYS: session, set, fence. ARGV: key, lifetime in ms, fence token, prefix of
-- session keys, most sessions of a user, most that end in one step, field, value, ...
local function create()
  if redis.call('GET', KEYS[3]) ~= ARGV[3] then
    return 0
  end
  if not redis.call('ZSCORE', KEYS[2], ARGV[1]) then
    redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', string.format('%.0f', now()))
    local over = redis.call('ZCARD', KEYS[2]) + 1 - tonumber(ARGV[5])
    if over > 0 then
      local oldest = redis.call('ZPOPMIN', KEYS[2], math.min(over, tonumber(ARGV[6])))
      for i = 1, #oldest, 2 do
        redis.call('UNLINK', ARGV[4] .. oldest[i])
      end
    end
  end
  redis.call('HSET', KEYS[1], unpack(ARGV, 7))
  keep(KEYS[1], KEYS[2], ARGV[1], ARGV[2])
  return 1
end
