-- ARGV: worker, free slots, lease in milliseconds, attempts at most
-- A slot holds one choice of a job. Returns {1 if the next job is held up, claims}: it needs more slots than are free, or
-- the answer has grown large enough. A claim is {verdict, epoch, queued milliseconds, payload, progress}; verdict is 'run',
-- 'late' or 'poison'. Jobs of the last two are forgotten here: the worker only has to tell their gateways.
local worker, free, lease, attempts_max = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
redis.call('ZADD', workers, now + lease, worker)
for _, dead in ipairs(redis.call('ZRANGEBYSCORE', workers, '-inf', now - 60000)) do
  redis.call('ZREM', workers, dead)
  redis.call('HDEL', lateness, dead)
end

for _, job in ipairs(redis.call('ZRANGEBYSCORE', leases, '-inf', now, 'LIMIT', 0, 256)) do
  hand_back(job)
end

local BYTES_MAX = 8 * 1024 * 1024 -- of payloads in one answer, unless a single one has more

local claimed, taken, size, held_up = {}, 0, 0, 0
for _, band in ipairs(bands) do
  while taken < free and held_up == 0 do
    local head = redis.call('ZRANGE', band, 0, 0, 'WITHSCORES')
    if #head == 0 then
      break
    end
    local job, tag = head[1], head[2]
    local payload = redis.call('HGET', jobs, job)
    local place = redis.call('HGET', places, job) or ''
    local enqueued, deadline, choices = place:match('^(%d+) (%d+) %d+ %S+ (%d+)$')
    if not payload or not enqueued then
      forget(job)
    elseif size > 0 and size + #payload > BYTES_MAX then
      held_up = 1
    elseif tonumber(redis.call('HGET', attempts, job) or 0) >= attempts_max then
      claimed[#claimed + 1] = { 'poison', redis.call('HINCRBY', epochs, job, 1), now - enqueued, payload, '' }
      size = size + #payload
      forget(job)
    elseif tonumber(deadline) < now and redis.call('HEXISTS', epochs, job) == 0 then
      claimed[#claimed + 1] = { 'late', 1, now - enqueued, payload, '' }
      size = size + #payload
      forget(job)
    elseif taken + choices > free then
      held_up = 1
    else
      redis.call('ZREM', band, job)
      redis.call('ZADD', leases, now + lease, job)
      redis.call('HSET', owners, job, worker)
      redis.call('HINCRBY', attempts, job, 1)
      if tonumber(tag) > tonumber(redis.call('GET', clock) or 0) then
        redis.call('SET', clock, tag)
      end
      local epoch, sent = redis.call('HINCRBY', epochs, job, 1), redis.call('HGET', progress, job) or ''
      claimed[#claimed + 1] = { 'run', epoch, now - enqueued, payload, sent }
      taken, size = taken + choices, size + #payload
    end
  end
end

-- An empty queue owes nobody anything: fairness starts afresh, and the tenants' tags do not pile up.
if queued() == 0 then
  redis.call('DEL', bell, tags, clock)
end
return { held_up, claimed }
