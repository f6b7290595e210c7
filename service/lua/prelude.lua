-- Every script of a pool's queue begins with this: the names of its keys, and what more than one of them does.
--
--   bands[b]   ZSET   queued job -> start tag; band 1 is served before band 2
--   jobs       HASH   job -> payload; a job whose payload is gone has been cancelled
--   places     HASH   job -> "enqueued_ms deadline_ms band tag choices": where a job goes when it is handed back
--   epochs     HASH   job -> number of claims, the fencing token
--   attempts   HASH   job -> claims that ended with a lost worker, and the one under way
--   leases     ZSET   claimed job -> time its lease runs out (ms)
--   owners     HASH   claimed job -> worker
--   workers    ZSET   worker -> time until which it counts as alive (ms)
--   tags       HASH   tenant -> finish tag of its last job; `clock` STRING is the virtual time of fair queueing
--   bell       LIST   one element wakes one idle worker
--   control    STREAM cancel, pause and resume, read by every worker of the pool
--   bytes      STRING size of all payloads held
--   progress   HASH   claimed job -> tokens of each choice that its gateway has been sent, or was at the last renewal
--   lateness   HASH   worker -> how late its events are of late (s)
--   bills      HASH   job -> whom to bill for it, and at which price; packed, and nobody's business here
--   ledger     STREAM an entry for each job that has ended and has a bill: bill, outcome, used, sent
--
-- Invariant: a job with a place is in exactly one of a band or leases. Whoever forgets a job enters it into the ledger, so
-- each is entered once.
local bands = { KEYS[1], KEYS[2], KEYS[3] }
local jobs, places, epochs, attempts = KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local leases, owners, workers = KEYS[8], KEYS[9], KEYS[10]
local tags, clock, bell, control, bytes, lateness = KEYS[11], KEYS[12], KEYS[13], KEYS[14], KEYS[15], KEYS[16]
local progress, bills, ledger = KEYS[17], KEYS[18], KEYS[19]

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function queued()
  return redis.call('ZCARD', bands[1]) + redis.call('ZCARD', bands[2]) + redis.call('ZCARD', bands[3])
end

local function drop_payload(job)
  redis.call('DECRBY', bytes, redis.call('HSTRLEN', jobs, job))
  redis.call('HDEL', jobs, job)
end

-- `used` is packed by whoever generated it; '' leaves it to what is known to have been sent.
local function forget(job, outcome, used)
  local bill = redis.call('HGET', bills, job)
  if bill then
    local sent = redis.call('HGET', progress, job) or ''
    redis.call('XADD', ledger, '*', 'bill', bill, 'outcome', outcome, 'used', used or '', 'sent', sent)
    redis.call('HDEL', bills, job)
  end
  drop_payload(job)
  for _, band in ipairs(bands) do
    redis.call('ZREM', band, job)
  end
  redis.call('HDEL', places, job)
  redis.call('HDEL', epochs, job)
  redis.call('HDEL', attempts, job)
  redis.call('HDEL', owners, job)
  redis.call('HDEL', progress, job)
  redis.call('ZREM', leases, job)
end

-- A claimed job goes back to where it stood: its old tag puts it before everything that came later.
local function hand_back(job)
  redis.call('ZREM', leases, job)
  redis.call('HDEL', owners, job)
  local place = redis.call('HGET', places, job)
  if not place or redis.call('HEXISTS', jobs, job) == 0 then
    forget(job, 'cancelled')
    return
  end
  local band, tag = place:match('^%d+ %d+ (%d+) (%S+)')
  redis.call('ZADD', bands[tonumber(band)], tag, job)
  redis.call('LPUSH', bell, 1)
end
