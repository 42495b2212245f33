-- KEYS: session, set, fence, old session. ARGV: key, lifetime in ms, fence token, old
-- key, field, value, ...
-- Returns 1, or 0 when fenced, or -1 when the old session has ended.
if redis.call('ZSCORE', KEYS[2], ARGV[1]) then
  return 1
end
if redis.call('EXISTS', KEYS[4]) == 0 or not redis.call('ZSCORE', KEYS[2], ARGV[4]) then
  return -1
end
if redis.call('GET', KEYS[3]) ~= ARGV[3] then
  return 0
end
redis.call('ZREM', KEYS[2], ARGV[4])
redis.call('UNLINK', KEYS[4])
redis.call('HSET', KEYS[1], unpack(ARGV, 5))
keep(KEYS[1], KEYS[2], ARGV[1], ARGV[2])
return 1
