-- KEYS: a record, the index of all. Forgets the record, and that there was one.
local size = redis.call('STRLEN', KEYS[1])
redis.call('DEL', KEYS[1])
if redis.call('ZREM', KEYS[2], size .. ' ' .. KEYS[1]) == 1 then
  redis.call('DECRBY', KEYS[2] .. ':bytes', size)
end
return 1
