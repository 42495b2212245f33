-- KEYS: session, set, fence, pending login. ARGV as create's.
-- Returns create's result, or -1 when the pending login has ended.
if redis.call('ZSCORE', KEYS[2], ARGV[1]) then
  return 1
end
if redis.call('EXISTS', KEYS[4]) == 0 then
  return -1
end
if create() == 0 then
  return 0
end
redis.call('UNLINK', KEYS[4])
return 1
