-- ARGV: worker, lease in milliseconds, lateness in seconds, then job, epoch, job, epoch, ...
-- Returns the jobs that are no longer this worker's to run: cancelled, or claimed by another after the lease ran out.
local worker, lease = ARGV[1], tonumber(ARGV[2])
redis.call('ZADD', workers, now + lease, worker)
redis.call('HSET', lateness, worker, ARGV[3])
local lost = {}
for i = 4, #ARGV, 2 do
  local job, epoch = ARGV[i], ARGV[i + 1]
  local mine = redis.call('HGET', owners, job) == worker and redis.call('HGET', epochs, job) == epoch
  if mine and redis.call('HEXISTS', jobs, job) == 1 then
    redis.call('ZADD', leases, 'XX', now + lease, job)
  else
    lost[#lost + 1] = job
  end
end
return lost
