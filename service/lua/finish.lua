-- ARGV: job, epoch, outcome, what it used, ...
-- Returns how many were this claim's to end. A stale owner's call changes nothing.
local ended = 0
for i = 1, #ARGV, 4 do
  if redis.call('HGET', epochs, ARGV[i]) == ARGV[i + 1] then
    forget(ARGV[i], ARGV[i + 2], ARGV[i + 3])
    ended = ended + 1
  end
end
return ended
