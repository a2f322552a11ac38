use crate::{
    ChangesPage, Epoch, ErrorCode, InventoryPage, Medium, RangeDrop, ReadReport, ReplicateConfig,
    SegmentId, TaskId, TaskKind, Version,
};

/// What a client or a node asks of the master. Every operation on keys is a batch; results are by position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// A heartbeat. It names the segments that the client hosts, so that the master can ask for what it misses.
    Ping {
        /// The segments that the client hosts.
        segments: Vec<SegmentId>,
        /// Segments of other clients whose nodes this client could not reach since its last ping. A node that does not ping
        /// soon after is out of sight until it does.
        unreachable: Vec<SegmentId>,
        /// What the client has read.
        reads: Option<Box<ReadReport>>,
    },
    /// The client pings no more. One that lends nothing is forgotten.
    Leave {
        /// What it has read.
        reads: Option<Box<ReadReport>>,
    },
    /// Lend a segment to the pool. Mounting one that is mounted already changes nothing.
    MountSegment(MountSegment<'a>),
    /// One page of the inventory of a mounted segment, which the master asked for. What was reported can be read from then
    /// on; the last page ends the inventory.
    ReportInventory(InventoryPage<'a>),
    /// One page of what changed in a mounted segment's ledger since the leader followed it as a standby. The last page ends
    /// the changes; what the segment holds can be read soon after that.
    ReportChanges(ChangesPage<'a>),
    /// Which segments are mounted, and where? For masters that stand by.
    ListSegments {
        /// Zero to begin, then what the last page said.
        from: u32,
        /// No more than this many; [`crate::limits::MAX_LISTED_SEGMENTS`] bounds it.
        limit: u32,
    },
    /// Which entries is this client to drop from the ledgers of its segments? No caller waits for these drops, but a later
    /// leader must not find the entries.
    FetchDrops {
        /// What they have dropped since the last time.
        dropped: Vec<RangeDrop>,
        /// No more than this many; [`crate::limits::MAX_FETCHED_DROPS`] bounds it.
        limit: u32,
    },
    /// Take a segment back. Its replicas are gone when the reply arrives, or when `grace_ms` has passed.
    UnmountSegment {
        /// The segment.
        id: SegmentId,
        /// How long it goes on serving gets, in milliseconds.
        grace_ms: u64,
    },
    /// Ask for ranges to write new objects to. [`ErrorCode::UnavailableInCurrentStatus`] as the result of a put says that
    /// the master is making room, since objects are on their way to disks: the client asks again later.
    PutStart(PutStart<'a>),
    /// Make written objects visible.
    PutEnd {
        /// What was written.
        puts: Vec<PutEnd<'a>>,
    },
    /// Give up puts that were started.
    PutRevoke {
        /// What was started.
        puts: Vec<PutRevoke<'a>>,
    },
    /// Where are these objects? Grants a lease on each that is found.
    GetReplicaList {
        /// The keys.
        keys: Vec<&'a str>,
    },
    /// As [`Request::GetReplicaList`], of keys that are read by routes that the client has.
    RenewRoutes {
        /// The keys.
        keys: Vec<&'a str>,
        /// How often each was read since the master was asked for it last.
        uses: Vec<u32>,
    },
    /// Do these objects exist, complete? Grants a lease on each that does.
    ExistKey {
        /// The keys.
        keys: Vec<&'a str>,
    },
    /// How many of these objects exist, complete, from the first on without a gap? Grants a lease on each that counts.
    PrefixLen {
        /// The keys, in order.
        keys: Vec<&'a str>,
    },
    /// Have these objects copied to memory where they lie on disks alone. Grants no lease.
    Prefetch {
        /// The keys.
        keys: Vec<&'a str>,
    },
    /// Remove objects.
    Remove {
        /// The keys.
        keys: Vec<&'a str>,
        /// Remove leased objects too.
        force: bool,
    },
    /// The nodes no longer hold these, which [`crate::Remains`] named: their ranges are free.
    Dropped {
        /// What was dropped, at most [`crate::limits::MAX_FETCHED_DROPS`]; what the master does not know is passed over.
        dropped: Vec<RangeDrop>,
    },
    /// What must nodes still drop of these ranges? A removal named them in [`crate::Remains`], perhaps under an earlier
    /// leader. A leader that found these versions again in inventories removes them, with all replicas that it knows of. What
    /// was put under the keys since stays. Without keys only the leader that named the ranges can answer.
    Retract {
        /// The keys of the objects, in any order.
        keys: Vec<&'a str>,
        /// What was named, at most [`crate::limits::MAX_FETCHED_DROPS`].
        ranges: Vec<RangeDrop>,
    },
    /// One page of a walk over all objects.
    Scan(Scan<'a>),
    /// Drop the replicas of objects that this client put, unless they are leased. An object with no replica left is
    /// gone.
    ClearReplicas {
        /// The keys.
        keys: Vec<&'a str>,
        /// Only the replicas on segments of this name; all of them if empty.
        segment: &'a str,
    },
    /// Have a replica copied or moved in the background, by the client that hosts it.
    CreateTask(CreateTask<'a>),
    /// How far is a task?
    QueryTask {
        /// The task.
        id: TaskId,
    },
    /// Tasks for this client to carry out. Each is handed out once.
    FetchTasks {
        /// No more than this many; [`crate::limits::MAX_FETCHED_TASKS`] bounds it.
        limit: u32,
        /// If none waits, the answer comes when one does, or after this time, in milliseconds;
        /// [`crate::limits::MAX_TASK_WAIT_MS`] bounds it.
        wait_ms: u32,
    },
    /// Drain segments of this client: move their replicas to other segments, as far as there is room without evicting
    /// anything. If the segments are being drained already, this only asks how far the job is.
    DrainSegments {
        /// The segments.
        segments: Vec<SegmentId>,
    },
    /// A fetched task has ended.
    EndTask {
        /// The task.
        id: TaskId,
        /// Whether its bytes are in place at every target, or why not.
        outcome: Result<(), ErrorCode>,
    },
}

impl Request<'_> {
    /// Whether it changes, or may begin to change, what lies under a key: a new leader puts such requests off until it knows
    /// what the nodes hold.
    #[must_use]
    pub fn changes_objects(&self) -> bool {
        match self {
            Request::PutStart(_)
            | Request::PutEnd { .. }
            | Request::PutRevoke { .. }
            | Request::Remove { .. }
            | Request::ClearReplicas { .. }
            | Request::Retract { .. }
            | Request::Prefetch { .. }
            | Request::CreateTask(_) => true,
            Request::Scan(scan) => scan.action != ScanAction::List,
            _ => false,
        }
    }
}

/// See [`Request::MountSegment`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MountSegment<'a> {
    /// The segment's incarnation.
    pub id: SegmentId,
    /// The name that callers know it by, `host:port` by default. Several segments may share one.
    pub name: &'a str,
    /// Where its node serves reads and writes, `host:port`.
    pub endpoint: &'a str,
    /// Its length in bytes.
    pub len: u64,
    /// The highest epoch that the node has obeyed. The master must lead with a higher one.
    pub seen_epoch: Epoch,
    /// Its ledger holds no entry, neither complete nor being written.
    pub is_empty: bool,
    /// How many processes of this client have lent a segment that outlives the process, this one included; zero if that is
    /// not known. A later process may have fewer entries than the one before it had.
    pub run: u64,
    /// What its bytes lie in.
    pub medium: Medium,
    /// The failure domains that its node lies in beside its host, the nearest first: see [`FailureDomains`](crate::FailureDomains).
    pub domains: &'a [String],
}

/// See [`Request::PutStart`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PutStart<'a> {
    /// The objects.
    pub puts: Vec<PutItem<'a>>,
    /// Placement and pins, the same for all of them.
    pub config: ReplicateConfig<'a>,
    /// What becomes of keys that are taken.
    pub mode: PutMode,
}

/// What a put does with a key that is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PutMode {
    /// Leaves the object that has it: the put is refused.
    #[default]
    Insert,
    /// Takes the place of the object that has it, when the put ends. Until then readers get the old one.
    Upsert,
}

/// One object to be put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PutItem<'a> {
    /// Its key.
    pub key: &'a str,
    /// Its length in bytes.
    pub len: u64,
    /// The group that it belongs to for good: objects of one group share leases and are evicted together. Empty: none.
    pub group: &'a str,
}

impl<'a> PutItem<'a> {
    /// An object of no group.
    #[must_use]
    pub const fn new(key: &'a str, len: u64) -> Self {
        Self { key, len, group: "" }
    }
}

/// One object whose bytes are in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PutEnd<'a> {
    /// Its key.
    pub key: &'a str,
    /// The version that was granted.
    pub version: Version,
    /// Bit `i` is set if the write of granted replica `i` failed; that replica is dropped.
    pub failed_replicas: u32,
    /// Of those, the ones whose ranges the node could not clear, since readers or older writers kept them: the master does
    /// not grant these ranges again for a while.
    pub held_replicas: u32,
}

/// One put that is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PutRevoke<'a> {
    /// Its key.
    pub key: &'a str,
    /// The version that was granted.
    pub version: Version,
    /// Bit `i` is set if readers or older writers kept the range of granted replica `i`: see [`PutEnd::held_replicas`].
    pub held_replicas: u32,
}

impl<'a> PutRevoke<'a> {
    /// A put whose ranges nobody holds.
    #[must_use]
    pub const fn new(key: &'a str, version: Version) -> Self {
        Self { key, version, held_replicas: 0 }
    }
}

/// One page of a walk over all objects in an order that does not depend on chance. An object that exists during
/// the whole walk is met exactly once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scan<'a> {
    /// Only keys that this regular expression finds (it need not match the whole key); all keys if absent.
    pub pattern: Option<&'a str>,
    /// What to do with each.
    pub action: ScanAction,
    /// Zero to begin, then what the last page said.
    pub cursor: u64,
    /// Look at no more than this many objects; [`crate::limits::MAX_SCAN_OBJECTS`] bounds it.
    pub limit: u32,
}

/// What a scan does with the objects that it meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanAction {
    /// Give their keys and places. Grants no lease.
    List,
    /// Remove them; leased ones only if forced, unfinished ones never.
    Remove {
        /// Remove leased objects too.
        force: bool,
    },
}

/// See [`Request::CreateTask`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateTask<'a> {
    /// The object's key.
    pub key: &'a str,
    /// Copy or move.
    pub kind: TaskKind,
    /// The segment name of the replica to be moved; empty for a copy, whose source the master chooses.
    pub source: &'a str,
    /// The segment names that are to hold a replica: one for a move, at least one for a copy.
    pub targets: Vec<&'a str>,
}
