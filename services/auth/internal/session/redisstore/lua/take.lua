-- KEYS: ceremony or hand-over, and where this call keeps it. ARGV: for how many ms, field, ...
-- Returns the fields' values, or none.
if redis.call('EXISTS', KEYS[1]) == 1 then
  redis.call('RENAME', KEYS[1], KEYS[2])
  redis.call('PEXPIRE', KEYS[2], ARGV[1])
end
local found = redis.call('HMGET', KEYS[2], unpack(ARGV, 2))
if not found[1] then
  return {}
end
for i = 2, #ARGV - 1 do
  found[i] = found[i] or '' -- of an earlier version
end
return found
