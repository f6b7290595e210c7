-- KEYS: an account's buckets, holds, expiries, spend. ARGV: msgpack of {job, milliseconds until the hold expires,
-- requests at once at most, budget, period, ways}; -1: no such limit. A way is {draws, reserve}, a draw {bucket, capacity,
-- amount}, a bucket's capacity what flows into it in a minute.
-- Takes all that the first way needs for which there is room, or nothing; for no job (''), nothing.
-- Returns msgpack of {number of the way, from 1; 0: none, reason, rooms}, a room being {bucket, capacity, level, amount} of
-- each bucket of that way, and if there is none, of the first way. Levels are those after. A bucket of which -1 is drawn is
-- only looked at.
local buckets, holds, expiries, spend = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local job, ttl, parallel, budget, period, ways = unpack(cmsgpack.unpack(ARGV[1]))
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function level_of(draw)
  local at, level = (redis.call('HGET', buckets, draw[1]) or ''):match('^(%S+) (%S+)$')
  if not at then
    return draw[2]
  end
  return math.min(draw[2], tonumber(level) + (now - at) * draw[2] / 60000)
end

-- Days since 1970 to year and month (Howard Hinnant, "chrono-compatible low-level date algorithms").
local function month_of(days)
  local z = days + 719468
  local era = math.floor(z / 146097)
  local doe = z - era * 146097
  local yoe = math.floor((doe - math.floor(doe / 1460) + math.floor(doe / 36524) - math.floor(doe / 146096)) / 365)
  local doy = doe - (365 * yoe + math.floor(yoe / 4) - math.floor(yoe / 100))
  local mp = math.floor((5 * doy + 2) / 153)
  local month = mp < 10 and mp + 3 or mp - 9
  return string.format('month %d-%02d', yoe + era * 400 + (month <= 2 and 1 or 0), month)
end

local function period_now()
  local days = math.floor(time[1] / 86400)
  return period == 'day' and 'day ' .. days or period == 'month' and month_of(days) or 'total'
end

for _, lost in ipairs(redis.call('ZRANGEBYSCORE', expiries, '-inf', now, 'LIMIT', 0, 100)) do
  local held = redis.call('HGET', holds, lost)
  if held then
    redis.call('HINCRBY', spend, 'reserved', -cmsgpack.unpack(held)[2])
    redis.call('HDEL', holds, lost)
  end
  redis.call('ZREM', expiries, lost)
end

local function rooms_of(way, taken)
  local rooms = {}
  for i, draw in ipairs(way[1]) do
    rooms[i] = { draw[1], draw[2], level_of(draw) - (taken and math.max(0, draw[3]) or 0), draw[3] }
  end
  return rooms
end

local function answer(number, reason, rooms)
  for _, room in ipairs(rooms) do
    room[3] = string.format('%.3f', room[3])
  end
  return cmsgpack.pack({ number, reason, rooms })
end

if job == '' or redis.call('HEXISTS', holds, job) == 1 then
  return answer(1, '', rooms_of(ways[1], false))
end
if parallel >= 0 and redis.call('HLEN', holds) >= parallel then
  return answer(0, 'parallel', rooms_of(ways[1], false))
end
local key = ''
if budget >= 0 then
  key = period_now()
  for _, field in ipairs(redis.call('HKEYS', spend)) do
    if field ~= key and field ~= 'reserved' and field ~= 'total' then
      redis.call('HDEL', spend, field) -- a period that is over
    end
  end
end
local spent = tonumber(redis.call('HGET', spend, key) or 0) + tonumber(redis.call('HGET', spend, 'reserved') or 0)

local reason = ''
for number, way in ipairs(ways) do
  local rooms, fits = rooms_of(way, true), true
  for i, draw in ipairs(way[1]) do
    if draw[3] >= 0 and (rooms[i][3] < 0 or rooms[i][3] + draw[3] <= 0) then
      fits = false
      reason = reason == '' and 'limit' or reason
    end
  end
  if fits and budget >= 0 and spent + way[2] > budget then
    fits = false
    reason = reason == '' and 'budget' or reason
  end
  if fits then
    for _, room in ipairs(rooms) do
      redis.call('HSET', buckets, room[1], string.format('%d %.17g', now, room[3]))
    end
    redis.call('PEXPIRE', buckets, 3600000)
    redis.call('HSET', holds, job, cmsgpack.pack({ now, way[2], key, way[1] }))
    redis.call('ZADD', expiries, now + ttl, job)
    if way[2] > 0 then
      redis.call('HINCRBY', spend, 'reserved', way[2])
    end
    return answer(number, '', rooms)
  end
end
return answer(0, reason, rooms_of(ways[1], false))
