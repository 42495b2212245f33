-- KEYS: form. ARGV: mark of the caller.
-- Forgets the form if it holds that mark, and returns how many it forgot.
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
