-- KEYS: session, set. ARGV: key, lifetimes in ms on any, own and shared devices, 0: left as
-- it is; and where the session must have a host open: the host, hash of its secret.
local session = values(KEYS[1])
if #session == 0 or not redis.call('ZSCORE', KEYS[2], ARGV[1]) then
  return {}
end
if ARGV[5] then
  local secret = redis.call('HGET', KEYS[1], 'h:' .. ARGV[5])
  if not secret or string.match(secret, ' (.*)') ~= ARGV[6] then
    return {}
  end
end
-- Renewed within the last second, as a page sends many requests at once: nothing
-- has to be written, appended to a file and replicated.
local lifetime = tonumber(lifetimeOf(session[11], ARGV[2], ARGV[3], ARGV[4]))
if lifetime > 0 then
  local left = redis.call('PTTL', KEYS[1])
  if left > lifetime or left <= lifetime - math.min(1000, lifetime / 1000) then
    keep(KEYS[1], KEYS[2], ARGV[1], lifetime)
  end
end
return session
