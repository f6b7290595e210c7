-- ARGV: worker, then job, epoch, progress, ...
-- Hands jobs back that this worker will not finish, unharmed: the claim does not count as an attempt.
-- An empty list says farewell: the worker no longer counts as alive.
redis.call('ZREM', workers, ARGV[1])
redis.call('HDEL', lateness, ARGV[1])
local released = 0
for i = 2, #ARGV, 3 do
  local job = ARGV[i]
  if redis.call('HGET', epochs, job) == ARGV[i + 1] and redis.call('HGET', owners, job) == ARGV[1] then
    redis.call('HINCRBY', attempts, job, -1)
    redis.call('HSET', progress, job, ARGV[i + 2])
    hand_back(job)
    released = released + 1
  end
end
return released
