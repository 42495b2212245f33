-- The values of a session's hash in the order that decode expects, or
-- none when the session is gone.
local function values(session)
  local found = redis.call('HMGET', session, 'username', 'role', 'csrf', 'agent', 'created', 'stamp', 'factor', 'auth_at', 'ip', 'login', 'device')
  if not found[1] then
    return {}
  end
  for i = 2, 11 do
    found[i] = found[i] or ''
  end
  return found
end
