-- KEYS: set. ARGV: prefix of session keys, most sessions.
-- Returns {key, expiry in Unix ms, {value, ...}}, the latest expiry first.
local list = {}
local found = redis.call('ZREVRANGE', KEYS[1], 0, ARGV[2] - 1, 'WITHSCORES')
for i = 1, #found, 2 do
  local session = values(ARGV[1] .. found[i])
  if #session > 0 then
    list[#list + 1] = {found[i], found[i + 1], session}
  end
end
return list
