-- KEYS: session, set. ARGV: key, host, hash of its secret, most hosts.
-- Returns 1, or 0 when the session has ended. The value of a host is "<number> <hash>",
-- where the numbers are in the order of opening.
if redis.call('EXISTS', KEYS[1]) == 0 or not redis.call('ZSCORE', KEYS[2], ARGV[1]) then
  return 0
end
local opened, last, field = {}, 0, 'h:' .. ARGV[2]
local found = redis.call('HGETALL', KEYS[1])
for i = 1, #found, 2 do
  if string.sub(found[i], 1, 2) == 'h:' then
    local number = tonumber(string.match(found[i + 1], '^%d+'))
    last = math.max(last, number)
    if found[i] ~= field then
      opened[#opened + 1] = {field = found[i], number = number}
    end
  end
end
table.sort(opened, function(a, b) return a.number < b.number end)
for i = 1, #opened + 1 - tonumber(ARGV[4]) do
  redis.call('HDEL', KEYS[1], opened[i].field)
end
redis.call('HSET', KEYS[1], field, string.format('%d', last + 1) .. ' ' .. ARGV[3])
return 1
