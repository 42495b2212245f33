-- Unix milliseconds by Redis's clock, which all replicas share.
local function now()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- The lifetime of a session on a device.
local function lifetimeOf(device, any, own, shared)
  if device == 'own' then
    return own
  elseif device == 'shared' then
    return shared
  end
  return any
end

-- Adds the session to its user's set for lifetime from now, removes the entries of
-- expired ones, and keeps the set as long as its last session.
local function keep(session, set, key, lifetime)
  local time = now()
  redis.call('PEXPIRE', session, lifetime)
  redis.call('ZADD', set, string.format('%.0f', time + lifetime), key)
  redis.call('ZREMRANGEBYSCORE', set, '-inf', string.format('%.0f', time))
  if redis.call('PTTL', set) < tonumber(lifetime) then
    redis.call('PEXPIRE', set, lifetime)
  end
end
