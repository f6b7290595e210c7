-- ARGV: worker, lease in milliseconds, lateness in seconds, whether it still claims (1 or 0), then job, epoch, progress, ...
-- Returns {job, epoch, 1 if cancelled} of the claims that are no longer this worker's to run. A worker that does not claim
-- any more keeps its leases, and does not count as alive.
local worker, lease = ARGV[1], tonumber(ARGV[2])
if ARGV[4] == '1' then
  redis.call('ZADD', workers, now + lease, worker)
  redis.call('HSET', lateness, worker, ARGV[3])
end
local lost = {}
for i = 5, #ARGV, 3 do
  local job, epoch = ARGV[i], ARGV[i + 1]
  local mine = redis.call('HGET', owners, job) == worker and redis.call('HGET', epochs, job) == epoch
  local wanted = redis.call('HEXISTS', jobs, job) == 1
  if mine and wanted then
    redis.call('ZADD', leases, 'XX', now + lease, job)
    redis.call('HSET', progress, job, ARGV[i + 2])
  else
    lost[#lost + 1] = { job, epoch, (mine and not wanted) and 1 or 0 }
  end
end

-- What no enqueue will ring for: leases that ran out, and jobs whose bell was heard by a worker that died of it.
if redis.call('LLEN', bell) == 0 and (queued() > 0 or redis.call('ZCOUNT', leases, '-inf', now) > 0) then
  redis.call('LPUSH', bell, 1)
end
return lost
