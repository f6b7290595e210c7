-- KEYS: a gateway's reply stream. ARGV: milliseconds until it expires, the id of the last entry read
-- Makes the stream if it is not there (its first entry has no events), puts off its expiry, trims what has been read.
-- Returns 1 if it was not there.
local made = 1 - redis.call('EXISTS', KEYS[1])
if made == 1 then
  redis.call('XADD', KEYS[1], '*', 'made', '')
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
redis.call('XTRIM', KEYS[1], 'MINID', ARGV[2])
return made
