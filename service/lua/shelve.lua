-- KEYS: a record, the index of all. ARGV: the record, milliseconds until it expires, now in milliseconds, bytes of all together
-- Keeps the record. The index has a member "SIZE KEY" for each, scored by when it expires; a hash beside it has the sum.
-- The oldest go when there is no room, as those that have expired do.
local index, sizes = KEYS[2], KEYS[2] .. ':bytes'
local function forget(members)
  for _, member in ipairs(members) do
    local size, key = string.match(member, '^(%d+) (.*)$')
    redis.call('DEL', key)
    if redis.call('ZREM', index, member) == 1 then
      redis.call('DECRBY', sizes, size)
    end
  end
end
local before = redis.call('STRLEN', KEYS[1])
if before > 0 then
  forget({ before .. ' ' .. KEYS[1] })
end
forget(redis.call('ZRANGEBYSCORE', index, '-inf', ARGV[3]))
local size = #ARGV[1]
if size > tonumber(ARGV[4]) then
  return 0
end
while tonumber(redis.call('INCRBY', sizes, 0)) + size > tonumber(ARGV[4]) do
  local oldest = redis.call('ZRANGE', index, 0, 0)
  if #oldest == 0 then
    redis.call('DEL', sizes) -- whatever it counted is gone
    break
  end
  forget(oldest)
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
redis.call('ZADD', index, string.format('%.3f', ARGV[3] + ARGV[2]), size .. ' ' .. KEYS[1])
redis.call('INCRBY', sizes, size)
return 1
