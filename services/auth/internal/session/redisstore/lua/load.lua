-- KEYS: session, set. ARGV: key, lifetime in ms, 0: left as it is.
local session = values(KEYS[1])
if #session == 0 or not redis.call('ZSCORE', KEYS[2], ARGV[1]) then
  return {}
end
-- Renewed within the last second, as a page sends many requests at once: nothing
-- has to be written, appended to a file and replicated.
local lifetime = tonumber(ARGV[2])
if lifetime > 0 then
  local left = redis.call('PTTL', KEYS[1])
  if left > lifetime or left <= lifetime - math.min(1000, lifetime / 1000) then
    keep(KEYS[1], KEYS[2], ARGV[1], ARGV[2])
  end
end
return session
