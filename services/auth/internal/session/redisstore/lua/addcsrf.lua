-- KEYS: session, set. ARGV: key, token.
local held = redis.call('HGET', KEYS[1], 'csrf')
if not held or not redis.call('ZSCORE', KEYS[2], ARGV[1]) then
  return ''
end
if held == '' then
  redis.call('HSET', KEYS[1], 'csrf', ARGV[2])
  return ARGV[2]
end
return held
