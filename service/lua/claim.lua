-- ARGV: worker, lease in milliseconds, attempts at most, milliseconds in which a waiting job gains a band, and for each
-- band the slots that its jobs may take: those that are free, and those of worse jobs that would make way.
-- A slot holds one choice of a job. Of the heads of all bands, that one is next which came first, where one of a worse
-- band counts as having come `aging` later for each band between them.
-- Returns {1 if the next job is held up, claims}: it needs more slots than it may take, or the answer has grown large
-- enough. A claim is {verdict, epoch, queued milliseconds, payload, progress}; verdict is 'run', 'late' or 'poison'.
-- Jobs of the last two are forgotten here: the worker only has to tell their gateways.
local worker, lease, attempts_max, aging = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local free = { tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]) }
redis.call('ZADD', workers, now + lease, worker)
for _, dead in ipairs(redis.call('ZRANGEBYSCORE', workers, '-inf', now - 60000)) do
  redis.call('ZREM', workers, dead)
  redis.call('HDEL', lateness, dead)
end

for _, job in ipairs(redis.call('ZRANGEBYSCORE', leases, '-inf', now, 'LIMIT', 0, 256)) do
  hand_back(job)
end

local BYTES_MAX = 8 * 1024 * 1024 -- of payloads in one answer, unless a single one has more

local heads = {}

local function look_at(band)
  local head = redis.call('ZRANGE', bands[band], 0, 0, 'WITHSCORES')
  if #head == 0 then
    heads[band] = nil
    return
  end
  local place = redis.call('HGET', places, head[1]) or ''
  local enqueued, deadline, choices = place:match('^(%d+) (%d+) %d+ %S+ (%d+)$')
  heads[band] = {
    band = band,
    job = head[1],
    tag = head[2],
    rank = (enqueued or 0) + band * aging,
    enqueued = enqueued,
    deadline = deadline,
    choices = choices,
  }
end

local function next_head()
  local best
  for band = 1, #bands do
    if heads[band] and (not best or heads[band].rank < best.rank) then
      best = heads[band]
    end
  end
  return best
end

for band = 1, #bands do
  look_at(band)
end

local claimed, taken, size, held_up = {}, 0, 0, 0
while held_up == 0 do
  local head = next_head()
  if not head or taken >= math.max(free[1], free[2], free[3]) then
    break
  end
  local job = head.job
  local payload = redis.call('HGET', jobs, job)
  if not payload or not head.enqueued then
    forget(job, 'cancelled')
  elseif size > 0 and size + #payload > BYTES_MAX then
    held_up = 1
  elseif tonumber(redis.call('HGET', attempts, job) or 0) >= attempts_max then
    claimed[#claimed + 1] = { 'poison', redis.call('HINCRBY', epochs, job, 1), now - head.enqueued, payload, '' }
    size = size + #payload
    forget(job, 'failed')
  elseif tonumber(head.deadline) < now and redis.call('HEXISTS', epochs, job) == 0 then
    claimed[#claimed + 1] = { 'late', 1, now - head.enqueued, payload, '' }
    size = size + #payload
    forget(job, 'rejected')
  elseif taken + head.choices > free[head.band] then
    held_up = 1
  else
    redis.call('ZREM', bands[head.band], job)
    redis.call('ZADD', leases, now + lease, job)
    redis.call('HSET', owners, job, worker)
    redis.call('HINCRBY', attempts, job, 1)
    if tonumber(head.tag) > tonumber(redis.call('GET', clock) or 0) then
      redis.call('SET', clock, head.tag)
    end
    local epoch, sent = redis.call('HINCRBY', epochs, job, 1), redis.call('HGET', progress, job) or ''
    claimed[#claimed + 1] = { 'run', epoch, now - head.enqueued, payload, sent }
    taken, size = taken + head.choices, size + #payload
  end
  if held_up == 0 then
    look_at(head.band)
  end
end

-- An empty queue owes nobody anything: fairness starts afresh, and the tenants' tags do not pile up.
if queued() == 0 then
  redis.call('DEL', bell, tags, clock)
end
return { held_up, claimed }
