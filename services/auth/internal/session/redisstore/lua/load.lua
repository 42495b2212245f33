-- KEYS: session, set. ARGV: key, lifetime in ms.
local fields = redis.call('HGETALL', KEYS[1])
if #fields == 0 or not redis.call('ZSCORE', KEYS[2], ARGV[1]) then
  return {}
end
keep(KEYS[1], KEYS[2], ARGV[1], ARGV[2])
return fields
