//! The bounds of everything that comes from outside. A value beyond one of these is refused with an error
//! that names it; no loop, queue or frame grows past them.

/// Longest key, in bytes of UTF-8. The longest keys seen in the field (vLLM's) have about 130.
pub const MAX_KEY_BYTES: usize = 4096;

/// Largest object, in bytes.
pub const MAX_OBJECT_BYTES: u64 = 1 << 40;

/// Largest segment, in bytes.
pub const MAX_SEGMENT_BYTES: u64 = 1 << 46;

/// Smallest segment, in bytes.
pub const MIN_SEGMENT_BYTES: u64 = 1 << 10;

/// Most memory replicas of one object. Failed replicas travel as a 32-bit set.
pub const MAX_REPLICAS: u32 = 32;

/// Most ranges that one replica may be striped over.
pub const MAX_STRIPES: usize = 64;

/// Shortest stripe that the master cuts, in bytes; an object shorter than this is never striped.
pub const MIN_STRIPE_BYTES: u64 = 64 << 10;

/// Most keys in one request to the master. Clients split longer batches.
pub const MAX_BATCH_KEYS: usize = 4096;

/// Most newer versions of keys that one reply about places names beside those that are asked for.
pub const MAX_SUCCESSORS: usize = 4096;

/// Most ranges of older versions that one reply about places names.
pub const MAX_PREDECESSORS: usize = 8 * MAX_BATCH_KEYS;

/// Most objects that one page of a scan looks at.
pub const MAX_SCAN_OBJECTS: u32 = 16_384;

/// Keys and places that one page of a scan lists, in bytes; the object that passes it is the page's last.
pub const MAX_SCAN_PAGE_BYTES: usize = 4 << 20;

/// Keys that one page of a scan matches against a regular expression, in bytes.
pub const MAX_SCAN_MATCHED_BYTES: usize = 64 << 10;

/// Longest regular expression, in bytes.
pub const MAX_REGEX_BYTES: usize = 4096;

/// Largest body of a frame, in bytes; payload that follows a data frame is not part of it.
pub const MAX_FRAME_BODY_BYTES: u32 = 32 << 20;

/// Most ranges in one data frame. Clients split longer batches.
pub const MAX_FRAME_RANGES: usize = 1024;

/// Most payload bytes that a client puts into one data frame holding more than one range. A longer range
/// travels in a frame of its own.
pub const MAX_FRAME_PAYLOAD_BYTES: u64 = 8 << 20;

/// The slowest pace, in bytes a second, at which a transfer that goes on is no failure.
const SLOWEST_BYTES_PER_SECOND: u64 = 16 << 20;

/// How much longer a call may take because of the bytes that it moves, in milliseconds.
#[must_use]
pub const fn time_to_move_ms(bytes: u64) -> u64 {
    bytes / (SLOWEST_BYTES_PER_SECOND / 1000)
}

/// Bytes that one checksum covers. A range's checksums are those of its consecutive chunks, the last one
/// possibly shorter.
pub const CHUNK_BYTES: u64 = 256 << 10;

/// Most clients that a master serves.
pub const MAX_CLIENTS: usize = 65_536;

/// Most segments that a master serves.
pub const MAX_SEGMENTS: usize = 65_536;

/// Most pieces of memory that one request of a dummy client names.
pub const MAX_DUMMY_PIECES: usize = 1 << 16;

/// Most objects that a dummy client is listed. A frame has room for fewer.
pub const MAX_DUMMY_LISTED_OBJECTS: usize = 1 << 20;

/// Longest segment name, endpoint or cluster id, in bytes.
pub const MAX_NAME_BYTES: usize = 512;

/// Most failure domains that a node names beside its host.
pub const MAX_DOMAINS: usize = 4;

/// Longest failure domain, its name and its value together, in bytes.
pub const MAX_DOMAIN_BYTES: usize = 256;

/// Longest name of a group, in bytes.
pub const MAX_GROUP_BYTES: usize = 1024;

/// Most objects of one group.
pub const MAX_GROUP_OBJECTS: usize = 1024;

/// Longest attributes of an object, in bytes: the name of its group, and what is known of its pins.
pub const MAX_ATTRIBUTES_BYTES: usize = MAX_GROUP_BYTES + 64;

/// Most entries in one page of an inventory.
pub const MAX_INVENTORY_PAGE_ENTRIES: usize = 4096;

/// Keys and attributes that one page of an inventory holds, in bytes; the entry that passes it is the page's last.
pub const MAX_INVENTORY_PAGE_BYTES: usize = 1 << 20;

/// Most changes of its ledger that a node remembers for each segment. A master that follows and misses more takes all
/// entries anew.
pub const MAX_LEDGER_CHANGES: usize = 1 << 18;

/// Most fences that a ledger keeps against writers that have not begun yet. A fence goes when the next write takes its place;
/// while there are this many, the node refuses drops that would need a further one.
pub const MAX_LEDGER_FENCES: usize = 1 << 16;

/// Most segments that a leader lists at once.
pub const MAX_LISTED_SEGMENTS: u32 = 4096;

/// Most ledger entries that a node is told to drop at once.
pub const MAX_FETCHED_DROPS: u32 = 4096;

/// Most tasks that are handed out at once.
pub const MAX_FETCHED_TASKS: u32 = 64;

/// Longest time that the master keeps a request for tasks while there are none, in milliseconds. A client that is gone is
/// found out after that.
pub const MAX_TASK_WAIT_MS: u32 = 1_000;

/// Most parts that one ledger entry may be written in before it is complete, as far as they don't touch.
pub const MAX_ENTRY_PARTS: usize = 4096;

/// Most drain jobs that run at a time.
pub const MAX_DRAINS: usize = 64;

/// Most segments that a drain job empties, and most that it names to move to.
pub const MAX_DRAIN_SEGMENTS: usize = 256;

/// Most units that a drain job moves at a time, whatever was asked.
pub const MAX_DRAIN_CONCURRENCY: u32 = 256;

/// Units that a drain job moves at a time unless it says otherwise.
pub const DEFAULT_DRAIN_CONCURRENCY: u32 = 4;

/// Longest message of a task, in bytes.
pub const MAX_TASK_MESSAGE_BYTES: usize = 1024;

/// Furthest that a later leader's epoch may lie above the highest that is known: 49 days. Epochs are milliseconds of wall
/// time, or a little more. No master, record or node believes one that is further above.
pub const MAX_EPOCH_JUMP: u64 = 1 << 32;

/// No leader ever has a higher epoch. A record that holds one is damaged.
pub const HIGHEST_EPOCH: crate::Epoch = crate::Epoch(1 << 62);

/// How long a promise of a node holds, in milliseconds: so long a reader may use its copy of an entry without asking, and
/// so long the node confirms no drop of that entry. It is shorter than the silence after which a client gives a node up.
pub const PROMISE_MS: u64 = 400;
