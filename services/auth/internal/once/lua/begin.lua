-- KEYS: form. ARGV: mark of the caller, how long it may take in ms.
-- Returns what the form holds: the caller's mark when the caller carries it out. (SET with NX and GET needs Redis 7.)
local found = redis.call('GET', KEYS[1])
if found then
  return found
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return ARGV[1]
