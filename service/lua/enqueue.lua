-- ARGV: job, payload, tenant, cost / weight, band, jobs at most, bytes at most, milliseconds to wait at most,
-- choices, bill ('': nobody is billed), entries that the ledger may hold
-- Returns {verdict, jobs ahead}; verdict is 'queued', 'full', 'no_workers' or 'unbilled'. Calling it again for one job changes nothing.
local job, payload, tenant, share, band = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
if redis.call('HEXISTS', places, job) == 1 then
  return { 'queued', queued() }
end
if redis.call('ZCOUNT', workers, now, '+inf') == 0 then
  return { 'no_workers', 0 }
end
local ahead = queued()
local held = tonumber(redis.call('GET', bytes) or 0)
if ahead >= tonumber(ARGV[6]) or held + #payload > tonumber(ARGV[7]) then
  return { 'full', ahead }
end
if ARGV[10] ~= '' then
  if redis.call('XLEN', ledger) >= tonumber(ARGV[11]) then
    return { 'unbilled', ahead } -- nobody reads the ledger; what is not entered would be lost
  end
  redis.call('HSET', bills, job, ARGV[10])
end

-- Start-time fair queueing (Goyal, Vin and Cheng 1996): a job starts where its tenant's last one finishes, never in the past.
local start = math.max(tonumber(redis.call('GET', clock) or 0), tonumber(redis.call('HGET', tags, tenant) or 0))
redis.call('HSET', tags, tenant, string.format('%.17g', start + share))
local tag = string.format('%.17g', start)

redis.call('HSET', jobs, job, payload)
redis.call('INCRBY', bytes, #payload)
redis.call('HSET', places, job, string.format('%d %d %d %s %s', now, now + tonumber(ARGV[8]), band, tag, ARGV[9]))
redis.call('ZADD', bands[band], tag, job)
redis.call('LPUSH', bell, 1)
redis.call('LTRIM', bell, 0, 63)
return { 'queued', ahead }
