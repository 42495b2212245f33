-- KEYS: pending login. ARGV: most tries, 1 to count one.
-- Returns the values that decodePending expects, or none.
local found = redis.call('HMGET', KEYS[1], 'fingerprint', 'browser', 'replaces', 'agent', 'ip', 'tries', 'created', 'device')
if not found[1] or tonumber(found[6]) >= tonumber(ARGV[1]) then
  return {}
end
if ARGV[2] == '1' then
  found[6] = tostring(redis.call('HINCRBY', KEYS[1], 'tries', 1))
end
found[8] = found[8] or '' -- of an earlier version
return found
