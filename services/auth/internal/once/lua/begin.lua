-- KEYS: form. ARGV: mark of one that is being carried out, how long it may take in ms.
-- Returns "" when the caller carries it out, else what the form holds. (SET with NX and GET needs
-- Redis 7.)
local found = redis.call('GET', KEYS[1])
if found then
  return found
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return ''
