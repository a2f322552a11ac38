//! The scripts, each of which the server runs as one step. Keys: the leader's, the record's. The record is a hash of
//! `stamp` and `text`.

/// Takes the place if no master holds it and the record has not changed since it was found.
/// Arguments: the stamp that was found (empty: no record), the holder, its time to live in milliseconds, the record.
/// Answers with the holder that was found instead, if any, and the stamp of the record.
pub(super) const TAKE: &str = "
local holder = redis.call('GET', KEYS[1])
local stamp = redis.call('HGET', KEYS[2], 'stamp') or ''
if holder or stamp ~= ARGV[1] then
  return {'held', holder or '', stamp}
end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
stamp = redis.call('HINCRBY', KEYS[2], 'stamp', 1)
redis.call('HSET', KEYS[2], 'text', ARGV[4])
return {'own', ARGV[2], tostring(stamp)}
";

/// Restarts the lease of a held place. Arguments: the holder, its time to live in milliseconds.
pub(super) const RENEW: &str = "
local holder = redis.call('GET', KEYS[1])
if holder ~= ARGV[1] then
  return {'held', holder or '', ''}
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return {'own', holder, ''}
";

/// Takes the place again if no other master holds it and the record has not changed since it was found.
/// Arguments: the stamp that was found, the holder, its time to live in milliseconds.
pub(super) const RESUME: &str = "
local holder = redis.call('GET', KEYS[1])
local stamp = redis.call('HGET', KEYS[2], 'stamp') or ''
if (holder and holder ~= ARGV[2]) or stamp ~= ARGV[1] then
  return {'held', holder or '', stamp}
end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return {'own', ARGV[2], stamp}
";

/// Replaces the record if this master holds the place and the record has not changed since its last write.
/// Arguments: the holder, the stamp, the record. Answers with the stamp of the record; it has not changed if nothing
/// was written.
pub(super) const WRITE: &str = "
local holder = redis.call('GET', KEYS[1])
local stamp = redis.call('HGET', KEYS[2], 'stamp') or ''
if holder ~= ARGV[1] then
  return {'held', holder or '', stamp}
end
if stamp ~= ARGV[2] then
  return {'changed', holder, stamp}
end
stamp = redis.call('HINCRBY', KEYS[2], 'stamp', 1)
redis.call('HSET', KEYS[2], 'text', ARGV[3])
return {'own', holder, tostring(stamp)}
";

/// Gives the place back if this master holds it. Argument: the holder.
pub(super) const RESIGN: &str = "
local holder = redis.call('GET', KEYS[1])
if holder == ARGV[1] then
  redis.call('DEL', KEYS[1])
  return {'own', holder, ''}
end
return {'held', holder or '', ''}
";
