-- ARGV: job
-- Returns 'queued', 'running' or 'gone'. A queued job is forgotten here and now. A running one loses its payload, so that no
-- other worker takes it up and the next renewal notices, and its worker is told.
local job = ARGV[1]
if redis.call('HEXISTS', places, job) == 0 then
  return 'gone'
end
if redis.call('ZSCORE', leases, job) then
  drop_payload(job)
  redis.call('XADD', control, 'MAXLEN', '~', 10000, '*', 'cancel', job)
  return 'running'
end
forget(job, 'cancelled')
return 'queued'
