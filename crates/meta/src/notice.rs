//! Notices: what the master tells operators about its own work.

use std::sync::Arc;

use mooncake_types::ErrorCode;

/// An event that is worth a line in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The master begins to repair objects that lack replicas.
    RepairBegins {
        /// Objects that lack replicas.
        objects: usize,
    },
    /// The repair ends: nothing more can be repaired now.
    RepairEnds {
        /// Replicas that were made.
        replicas: u64,
        /// Bytes of these replicas.
        bytes: u64,
        /// Copies that failed.
        failures: u64,
        /// Objects that still lack replicas: there is no room for them, or their sources cannot be read.
        left: usize,
        /// How long the repair took, in milliseconds.
        took_ms: u64,
    },
    /// A segment has joined the pool.
    SegmentJoins {
        /// Its name.
        name: Arc<str>,
        /// The address at which its node serves it.
        endpoint: Arc<str>,
        /// Its length in bytes.
        len: u64,
    },
    /// A segment has left the pool. Its bytes are lost.
    SegmentGoes {
        /// Its name.
        name: Arc<str>,
        /// Ranges of finished objects that lay there. An object without another replica is lost.
        replicas: u64,
        /// Bytes that were reserved there.
        bytes: u64,
        /// Whether the node did not unmount the segment: it was silent for too long, or another process took its
        /// place.
        is_lost: bool,
    },
    /// A segment failed, so its node takes it out of the pool.
    SegmentFailed {
        /// Its name.
        name: Arc<str>,
        /// Why, in the words of its node.
        failure: Box<str>,
    },
    /// A client that lends segments is out of sight: no range of these segments can be read.
    SightLost {
        /// The name of one of its segments.
        name: Arc<str>,
        /// How many segments the client lends.
        segments: usize,
    },
    /// The client is back in sight, with all objects on its segments.
    SightRegained {
        /// The name of one of its segments.
        name: Arc<str>,
        /// How many segments the client lends.
        segments: usize,
    },
    /// A segment takes no puts until its node has dropped half of what it has to drop.
    TooMuchToDrop {
        /// Its name.
        name: Arc<str>,
        /// Entries that the node has to drop.
        tombstones: usize,
    },
    /// Eviction chose objects that are copied to disks before their memory is freed. One notice covers about a
    /// second.
    Sinking {
        /// Objects that began to sink.
        deferred: u64,
        /// Objects that were evicted without a copy, because no further copy was allowed.
        forced: u64,
        /// Copies that failed, of these objects and earlier ones.
        failed: u64,
    },
    /// A copy of an object to a disk failed at the node.
    OffloadFailed {
        /// The name of the segment on that disk.
        segment: Arc<str>,
        /// What the node reported.
        code: ErrorCode,
    },
    /// An object is read so often that it is worth another replica. At most one such notice is given in a tenth of a
    /// second.
    Hot {
        /// Its key.
        key: Box<str>,
        /// Replicas that it has in memory.
        replicas: u32,
        /// The segment that gets a further replica; absent if reads are only observed.
        target: Option<Arc<str>>,
    },
}
