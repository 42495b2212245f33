-- KEYS: set, fence. ARGV: prefix of session keys, key to keep.
redis.call('UNLINK', KEYS[2])
local ended = 0
for _, key in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  if key ~= ARGV[2] then
    ended = ended + redis.call('UNLINK', ARGV[1] .. key)
    redis.call('ZREM', KEYS[1], key)
  end
end
return ended
