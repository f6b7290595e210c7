-- Returns {living workers, lateness of the latest of them in seconds}
local living, worst = redis.call('ZRANGEBYSCORE', workers, now, '+inf'), 0
for _, worker in ipairs(living) do
  worst = math.max(worst, tonumber(redis.call('HGET', lateness, worker) or 0))
end
return { #living, tostring(worst) }
