-- KEYS: an account's buckets, holds, expiries, spend. ARGV: msgpack of {job, cost, amounts, whether it has ended}, amounts
-- being what was really used of each kind, which is the end of a bucket's name.
-- Trues up what was taken for a job; when it has ended, its hold is released and its cost spent. Once: of a job that is not
-- held nothing is settled. Returns 1 if it was held.
local buckets, holds, expiries, spend = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local job, cost, amounts, ended = unpack(cmsgpack.unpack(ARGV[1]))
local held = redis.call('HGET', holds, job)
if not held then
  return 0
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local taken, reserve, key, draws = unpack(cmsgpack.unpack(held))

for _, draw in ipairs(draws) do
  local bucket, capacity, amount = draw[1], draw[2], draw[3]
  local used = amounts[bucket:match('[%w_]+$')]
  if used and used ~= amount then
    local at, level = (redis.call('HGET', buckets, bucket) or ''):match('^(%S+) (%S+)$')
    level = at and math.min(capacity, tonumber(level) + (now - at) * capacity / 60000) or capacity
    local back = amount - used
    if back > 0 then
      back = math.max(0, back - (now - taken) * capacity / 60000) -- not what time has given back already
    end
    redis.call('HSET', buckets, bucket, string.format('%d %.17g', now, math.min(capacity, level + back)))
    redis.call('PEXPIRE', buckets, 3600000)
    draw[3] = used
  end
end

if ended == 0 then
  redis.call('HSET', holds, job, cmsgpack.pack({ taken, reserve, key, draws }))
  return 1
end
redis.call('HDEL', holds, job)
redis.call('ZREM', expiries, job)
if reserve > 0 then
  redis.call('HINCRBY', spend, 'reserved', -reserve)
end
if cost > 0 and key ~= '' then
  redis.call('HINCRBY', spend, key, cost)
end
return 1
