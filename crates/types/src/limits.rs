//! The bounds of all input from outside. A value beyond a bound is refused with an error that names it. No loop, queue
//! or frame grows past a bound.

/// Longest key, in bytes of UTF-8. The longest keys seen in practice, vLLM's, have about 130.
pub const MAX_KEY_BYTES: usize = 4096;

/// Longest name of a tenant, in bytes. It counts as a part of the key, as do the two bytes beside it.
pub const MAX_TENANT_BYTES: usize = 128;

/// Most tenants that have quotas.
pub const MAX_TENANT_QUOTAS: usize = 1024;

/// Largest object, in bytes.
pub const MAX_OBJECT_BYTES: u64 = 1 << 40;

/// Largest segment, in bytes.
pub const MAX_SEGMENT_BYTES: u64 = 1 << 46;

/// Longest segment of memory: more than machines have. A longer one would draw most puts, and hold none of them.
pub const MAX_MEMORY_SEGMENT_BYTES: u64 = 1 << 44;

/// Smallest segment, in bytes.
pub const MIN_SEGMENT_BYTES: u64 = 1 << 10;

/// Most memory replicas of one object. A message lists failed replicas as a 32-bit set.
pub const MAX_REPLICAS: u32 = 32;

/// Most ranges that hold one striped replica.
pub const MAX_STRIPES: usize = 64;

/// Shortest stripe, in bytes. The master never stripes a shorter object.
pub const MIN_STRIPE_BYTES: u64 = 64 << 10;

/// Most keys in one request to the master. Clients split longer batches.
pub const MAX_BATCH_KEYS: usize = 4096;

/// Most newer versions that one reply to `GetReplicaList` names beside the requested ones.
pub const MAX_SUCCESSORS: usize = 4096;

/// Most ranges of older versions that one reply to `GetReplicaList` names.
pub const MAX_PREDECESSORS: usize = 8 * MAX_BATCH_KEYS;

/// Most objects that one page of a scan looks at.
pub const MAX_SCAN_OBJECTS: u32 = 16_384;

/// Keys and placements that one page of a scan lists, in bytes. The object that exceeds this ends the page.
pub const MAX_SCAN_PAGE_BYTES: usize = 4 << 20;

/// Keys that one page of a scan matches against a regular expression, in bytes. The key that exceeds this ends the
/// page.
pub const MAX_SCAN_MATCHED_BYTES: usize = 64 << 10;

/// Longest regular expression, in bytes.
pub const MAX_REGEX_BYTES: usize = 4096;

/// Largest body of a frame, in bytes. The payload after a data frame is not part of the body.
pub const MAX_FRAME_BODY_BYTES: u32 = 32 << 20;

/// Most ranges in one data frame. Clients split longer batches.
pub const MAX_FRAME_RANGES: usize = 1024;

/// Most ranges that a client begins together to write them in place: none of them can be read before all are complete.
pub const MAX_BEGIN_RANGES: usize = 64;

/// Most transports that a node offers.
pub const MAX_TRANSPORTS: usize = 16;

/// Longest name of a transport, in bytes.
pub const MAX_TRANSPORT_NAME_BYTES: usize = 64;

/// Longest address of a node by a transport, in bytes.
pub const MAX_TRANSPORT_ADDRESS_BYTES: usize = 512;

/// Longest description of memory that a peer reaches by a transport, in bytes.
pub const MAX_REMOTE_MEMORY_BYTES: usize = 172 << 10;

/// Most payload bytes that a client puts into one data frame with more than one range. A longer range travels in a
/// frame of its own.
pub const MAX_FRAME_PAYLOAD_BYTES: u64 = 8 << 20;

/// The slowest rate, in bytes per second, at which a running transfer does not count as failed.
const SLOWEST_BYTES_PER_SECOND: u64 = 16 << 20;

/// The time that a call may take in addition, because it moves this many bytes, in milliseconds.
#[must_use]
pub const fn time_to_move_ms(bytes: u64) -> u64 {
    bytes / (SLOWEST_BYTES_PER_SECOND / 1000)
}

/// Bytes that one checksum covers. A range has one checksum for each consecutive chunk; the last chunk may be shorter.
pub const CHUNK_BYTES: u64 = 256 << 10;

/// Most clients that a master serves.
pub const MAX_CLIENTS: usize = 65_536;

/// Most segments that a master serves.
pub const MAX_SEGMENTS: usize = 65_536;

/// Most pieces of memory that one request of a dummy client names.
pub const MAX_DUMMY_PIECES: usize = 1 << 16;

/// Most objects in one listing for a dummy client. A frame has room for fewer.
pub const MAX_DUMMY_LISTED_OBJECTS: usize = 1 << 20;

/// Longest segment name, endpoint or cluster id, in bytes.
pub const MAX_NAME_BYTES: usize = 512;

/// Most failure domains of a node, apart from its host.
pub const MAX_DOMAINS: usize = 4;

/// Longest failure domain, its name and its value together, in bytes.
pub const MAX_DOMAIN_BYTES: usize = 256;

/// Longest name of a group, in bytes.
pub const MAX_GROUP_BYTES: usize = 1024;

/// Most objects of one group.
pub const MAX_GROUP_OBJECTS: usize = 1024;

/// Longest attributes of an object, in bytes: the name of its group, and its pins.
pub const MAX_ATTRIBUTES_BYTES: usize = MAX_GROUP_BYTES + 64;

/// Most overruled keys in the membership record that it keeps one by one.
pub const MAX_OVERRULED_KEYS: usize = 1_024;

/// Most overruled keys and versions in its filter, beside those. With so many, two other entries in five are taken for
/// one of them.
pub const MAX_FILTERED_KEYS: usize = 1 << 17;

/// Most entries in one page of an inventory.
pub const MAX_INVENTORY_PAGE_ENTRIES: usize = 4096;

/// Keys and attributes in one page of an inventory, in bytes. The entry that exceeds this ends the page.
pub const MAX_INVENTORY_PAGE_BYTES: usize = 1 << 20;

/// Most lost entries of a segment that a node remembers until the master knows of them.
pub const MAX_UNREPORTED_LOSSES: usize = 1 << 16;

/// Most changes of a segment's ledger that a node remembers. A standby that missed more of them takes all entries
/// anew.
pub const MAX_LEDGER_CHANGES: usize = 1 << 18;

/// From this many fences on, a ledger has a further one, against a writer that has not begun yet, join the fence beside
/// it. The next write to the range removes its fence.
pub const MAX_LEDGER_FENCES: usize = 1 << 16;

/// Most segments in one page of a leader's list.
pub const MAX_LISTED_SEGMENTS: u32 = 4096;

/// Most ledger entries that one reply tells a node to drop.
pub const MAX_FETCHED_DROPS: u32 = 4096;

/// Most tasks that one reply hands out.
pub const MAX_FETCHED_TASKS: u32 = 64;

/// Longest time that the master waits for a task before it answers `FetchTasks`, in milliseconds. Only then does it
/// notice that a client is gone.
pub const MAX_TASK_WAIT_MS: u32 = 1_000;

/// Most separate parts in which one ledger entry may be written. Parts that touch count as one.
pub const MAX_ENTRY_PARTS: usize = 4096;

/// Most drain jobs that run at a time.
pub const MAX_DRAINS: usize = 64;

/// Most segments that a drain job drains, and most segments that it names as targets.
pub const MAX_DRAIN_SEGMENTS: usize = 256;

/// Most units that a drain job moves at a time, even if its order asks for more.
pub const MAX_DRAIN_CONCURRENCY: u32 = 256;

/// Units that a drain job moves at a time if its order does not say.
pub const DEFAULT_DRAIN_CONCURRENCY: u32 = 4;

/// Longest message of a task or a drain job, in bytes.
pub const MAX_TASK_MESSAGE_BYTES: usize = 1024;

/// How far a new leader's epoch may lie above the highest known one: 49 days. Epochs are milliseconds of wall time, or
/// slightly more. Masters, records and nodes reject epochs further above.
pub const MAX_EPOCH_JUMP: u64 = 1 << 32;

/// The highest epoch that a leader can have. A record with a higher one is damaged.
pub const HIGHEST_EPOCH: crate::Epoch = crate::Epoch(1 << 62);

/// How long a promise of a node holds, in milliseconds. For this time a reader may use its copy of an entry without
/// asking, and the node confirms no drop of that entry. It is shorter than the silence after which a client gives up a
/// node.
pub const PROMISE_MS: u64 = 400;
