-- KEYS: set, fence. ARGV: prefix of session keys, role, most sessions, of which
-- those used last are changed.
redis.call('UNLINK', KEYS[2])
for _, key in ipairs(redis.call('ZREVRANGE', KEYS[1], 0, ARGV[3] - 1)) do
  local session = ARGV[1] .. key
  if redis.call('EXISTS', session) == 1 then
    redis.call('HSET', session, 'role', ARGV[2])
  end
end
return 1
