//! What operators are to be told of the master's own work.

use std::sync::Arc;

/// Something that is worth a line in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Objects that lack replicas are repaired from now on.
    RepairBegins {
        /// How many lack some.
        objects: usize,
    },
    /// Nothing more can be repaired now.
    RepairEnds {
        /// Replicas that were made.
        replicas: u64,
        /// Their bytes.
        bytes: u64,
        /// Copies that failed.
        failures: u64,
        /// Objects that still lack replicas: there is no room for them, or their sources cannot be read.
        left: usize,
        /// How long it took, in milliseconds.
        took_ms: u64,
    },
    /// A segment is lent from now on.
    SegmentJoins {
        /// Its name.
        name: Arc<str>,
        /// Where its node serves it.
        endpoint: Arc<str>,
        /// Its length in bytes.
        len: u64,
    },
    /// A segment is lent no longer, and what lay there is gone.
    SegmentGoes {
        /// Its name.
        name: Arc<str>,
        /// Replicas of objects that lay there. Objects that have no other are lost.
        replicas: u64,
        /// Bytes that were reserved there.
        bytes: u64,
        /// Its node did not take it back, but was not heard of for too long, or another process took its place.
        is_lost: bool,
    },
    /// A client that lends segments is out of sight: nothing that lies there can be read.
    SightLost {
        /// The name of one of its segments.
        name: Arc<str>,
        /// How many it lends.
        segments: usize,
    },
    /// It is back, with all that it held.
    SightRegained {
        /// The name of one of its segments.
        name: Arc<str>,
        /// How many it lends.
        segments: usize,
    },
    /// Eviction chose objects that go to disks first, in a second or so.
    Sinking {
        /// How many do.
        deferred: u64,
        /// How many others were evicted without a copy, because as many are on their way as may be.
        forced: u64,
        /// How many, of these and earlier ones, were evicted because their copies failed.
        failed: u64,
    },
    /// An object is read so often that it is worth another replica. Of many there is one notice in a tenth of a second.
    Hot {
        /// Its key.
        key: Box<str>,
        /// Replicas that it has.
        replicas: u32,
        /// The segment that gets a further one; absent if it is only observed.
        target: Option<Arc<str>>,
    },
}
