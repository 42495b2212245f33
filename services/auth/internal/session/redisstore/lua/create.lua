-- KEYS: session, set, fence. ARGV: key, lifetime in ms, fence token, prefix of
-- session keys, most sessions of a user, most that end in one step, lifetimes on any, own and
-- shared devices, field, value, ...

-- Ends sessions, as many as over says but at most ARGV[6]: those that were used longest ago. Where
-- lifetimes differ, these need not be the ones that expire first.
local function endOldest(over)
  local found, list = redis.call('ZRANGE', KEYS[2], 0, ARGV[6] - 1, 'WITHSCORES'), {}
  for i = 1, #found, 2 do
    local device = redis.call('HGET', ARGV[4] .. found[i], 'device')
    local used = tonumber(found[i + 1]) - tonumber(lifetimeOf(device, ARGV[7], ARGV[8], ARGV[9]))
    list[#list + 1] = {key = found[i], used = used}
  end
  table.sort(list, function(a, b) return a.used < b.used end)
  for i = 1, math.min(over, #list) do
    redis.call('ZREM', KEYS[2], list[i].key)
    redis.call('UNLINK', ARGV[4] .. list[i].key)
  end
end

local function create()
  if redis.call('GET', KEYS[3]) ~= ARGV[3] then
    return 0
  end
  if not redis.call('ZSCORE', KEYS[2], ARGV[1]) then
    redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', string.format('%.0f', now()))
    local over = redis.call('ZCARD', KEYS[2]) + 1 - tonumber(ARGV[5])
    if over > 0 then
      endOldest(over)
    end
  end
  redis.call('HSET', KEYS[1], unpack(ARGV, 10))
  keep(KEYS[1], KEYS[2], ARGV[1], ARGV[2])
  return 1
end
