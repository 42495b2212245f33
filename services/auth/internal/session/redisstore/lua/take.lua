-- KEYS: ceremony or hand-over. ARGV: field, ... Returns their values, or none. (GETDEL
-- needs Redis 6.2.)
local found = redis.call('HMGET', KEYS[1], unpack(ARGV))
redis.call('UNLINK', KEYS[1])
if not found[1] then
  return {}
end
for i = 2, #ARGV do
  found[i] = found[i] or '' -- of an earlier version
end
return found
