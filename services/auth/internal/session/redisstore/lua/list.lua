-- KEYS: set. ARGV: prefix of session keys.
-- Answers {key, expiry in Unix ms, {field, value, ...}}, the last used first.
local list = {}
local found = redis.call('ZREVRANGE', KEYS[1], 0, -1, 'WITHSCORES')
for i = 1, #found, 2 do
  local fields = redis.call('HGETALL', ARGV[1] .. found[i])
  if #fields > 0 then
    list[#list + 1] = {found[i], found[i + 1], fields}
  end
end
return list
