//! What the server runs as one step. Keys: the leader's, the record's. The record is a hash of `stamp` and `text`.

/// Takes the place if nobody has it and the record is as it was found.
/// Arguments: the stamp that was found (empty: no record), the seat, its time to live in milliseconds, the record.
/// Answers with the seat that was found instead, if any, and the stamp of the record.
pub(super) const TAKE: &str = "
local seat = redis.call('GET', KEYS[1])
local stamp = redis.call('HGET', KEYS[2], 'stamp') or ''
if seat or stamp ~= ARGV[1] then
  return {'held', seat or '', stamp}
end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
stamp = redis.call('HINCRBY', KEYS[2], 'stamp', 1)
redis.call('HSET', KEYS[2], 'text', ARGV[4])
return {'own', ARGV[2], tostring(stamp)}
";

/// Makes the place last. Arguments: the seat, its time to live in milliseconds.
pub(super) const RENEW: &str = "
local seat = redis.call('GET', KEYS[1])
if seat ~= ARGV[1] then
  return {'held', seat or '', ''}
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return {'own', seat, ''}
";

/// Takes the place again if nobody else has it and the record is as it was found.
/// Arguments: the stamp that was found, the seat, its time to live in milliseconds.
pub(super) const RESUME: &str = "
local seat = redis.call('GET', KEYS[1])
local stamp = redis.call('HGET', KEYS[2], 'stamp') or ''
if (seat and seat ~= ARGV[2]) or stamp ~= ARGV[1] then
  return {'held', seat or '', stamp}
end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return {'own', ARGV[2], stamp}
";

/// Replaces the record if the place is held and the record is as it was written last.
/// Arguments: the seat, the stamp, the record. Answers with the stamp of the record; it has not changed if nothing
/// was written.
pub(super) const WRITE: &str = "
local seat = redis.call('GET', KEYS[1])
local stamp = redis.call('HGET', KEYS[2], 'stamp') or ''
if seat ~= ARGV[1] then
  return {'held', seat or '', stamp}
end
if stamp ~= ARGV[2] then
  return {'changed', seat, stamp}
end
stamp = redis.call('HINCRBY', KEYS[2], 'stamp', 1)
redis.call('HSET', KEYS[2], 'text', ARGV[3])
return {'own', seat, tostring(stamp)}
";

/// Gives the place back if it is held. Argument: the seat.
pub(super) const RESIGN: &str = "
local seat = redis.call('GET', KEYS[1])
if seat == ARGV[1] then
  redis.call('DEL', KEYS[1])
  return {'own', seat, ''}
end
return {'held', seat or '', ''}
";
