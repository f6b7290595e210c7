-- KEYS: what an account used in each part of time. ARGV: msgpack of {seconds of a part, seconds to keep, {{tier, tokens}, ...}}.
-- Returns {now in seconds, "part tier", tokens, ...}.
local used = KEYS[1]
local length, kept, counted = unpack(cmsgpack.unpack(ARGV[1]))
local time = redis.call('TIME')
local part = math.floor(time[1] / length)
for _, each in ipairs(counted) do
  redis.call('HINCRBY', used, part .. ' ' .. each[1], each[2])
end
redis.call('EXPIRE', used, math.ceil(kept))
local rows = redis.call('HGETALL', used)
local answer = { string.format('%d.%06d', time[1], time[2]) }
for i = 1, #rows, 2 do
  if tonumber(rows[i]:match('^%d+')) < part - kept / length then
    redis.call('HDEL', used, rows[i])
  else
    answer[#answer + 1] = rows[i]
    answer[#answer + 1] = rows[i + 1]
  end
end
return answer
