-- ARGV: worker, free slots, lease in milliseconds, attempts at most
-- Returns a list of {verdict, epoch, queued milliseconds, payload, progress}; verdict is 'run', 'late' or 'poison'. Jobs of the
-- last two are forgotten here: the worker only has to tell their gateways.
local worker, free, lease, attempts_max = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
redis.call('ZADD', workers, now + lease, worker)
for _, dead in ipairs(redis.call('ZRANGEBYSCORE', workers, '-inf', now - 60000)) do
  redis.call('ZREM', workers, dead)
  redis.call('HDEL', lateness, dead)
end

for _, job in ipairs(redis.call('ZRANGEBYSCORE', leases, '-inf', now, 'LIMIT', 0, 256)) do
  hand_back(job)
end

local claimed, taken = {}, 0
for _, band in ipairs(bands) do
  while taken < free do
    local head = redis.call('ZPOPMIN', band)
    if #head == 0 then
      break
    end
    local job, tag = head[1], head[2]
    local payload = redis.call('HGET', jobs, job)
    local enqueued, deadline = (redis.call('HGET', places, job) or ''):match('^(%d+) (%d+)')
    if not payload or not enqueued then
      forget(job)
    elseif tonumber(redis.call('HGET', attempts, job) or 0) >= attempts_max then
      claimed[#claimed + 1] = { 'poison', redis.call('HINCRBY', epochs, job, 1), now - enqueued, payload, '' }
      forget(job)
    elseif tonumber(deadline) < now and redis.call('HEXISTS', epochs, job) == 0 then
      claimed[#claimed + 1] = { 'late', 1, now - enqueued, payload, '' }
      forget(job)
    else
      redis.call('ZADD', leases, now + lease, job)
      redis.call('HSET', owners, job, worker)
      redis.call('HINCRBY', attempts, job, 1)
      if tonumber(tag) > tonumber(redis.call('GET', clock) or 0) then
        redis.call('SET', clock, tag)
      end
      local epoch, sent = redis.call('HINCRBY', epochs, job, 1), redis.call('HGET', progress, job) or ''
      claimed[#claimed + 1] = { 'run', epoch, now - enqueued, payload, sent }
      taken = taken + 1
    end
  end
end

-- An empty queue owes nobody anything: fairness starts afresh, and the tenants' tags do not pile up.
if queued() == 0 then
  redis.call('DEL', bell, tags, clock)
end
return claimed
