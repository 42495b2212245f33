-- KEYS: session, set, fence. ARGV: key, lifetime in ms, fence token, field, value, ...
if redis.call('GET', KEYS[3]) ~= ARGV[3] then
  return 0
end
redis.call('HSET', KEYS[1], unpack(ARGV, 4))
keep(KEYS[1], KEYS[2], ARGV[1], ARGV[2])
return 1
