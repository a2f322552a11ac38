use crate::{
    ChangesPage, Epoch, ErrorCode, InventoryPage, Medium, RangeDrop, ReadReport, ReplicateConfig,
    SealKey, SegmentId, TaskId, TaskKind, Version,
};

/// A request of a client or a node to the master. Every operation on keys is a batch; results are in the order of the
/// keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// A heartbeat. The master asks for the segments in it that it does not know.
    Ping {
        /// The segments that the client hosts.
        segments: Vec<SegmentId>,
        /// Segments of other clients whose nodes this client could not reach since its last ping. If one of these
        /// nodes does not ping soon after, the master treats it as unreachable until its next ping.
        unreachable: Vec<SegmentId>,
        /// What the client has read so far.
        reads: Option<Box<ReadReport>>,
    },
    /// The client leaves: it sends no further pings. The master forgets a client that lends no segment.
    Leave {
        /// What the client has read so far.
        reads: Option<Box<ReadReport>>,
    },
    /// Lends a segment to the pool. Mounting a segment a second time changes nothing.
    MountSegment(MountSegment<'a>),
    /// One page of the inventory of a mounted segment, which the master asked for. The entries of a page can be read
    /// once the master has it; the last page ends the inventory.
    ReportInventory(InventoryPage<'a>),
    /// One page of the changes in a mounted segment's ledger since the leader, then a standby, followed it. The last
    /// page ends the changes; the entries of the segment can be read soon after that.
    ReportChanges(ChangesPage<'a>),
    /// A standby master asks which segments are mounted, and where.
    ListSegments {
        /// Zero for the first page, then the [`next`](crate::SegmentPage::next) of the page before.
        from: u32,
        /// Most segments in the answer; [`crate::limits::MAX_LISTED_SEGMENTS`] bounds it.
        limit: u32,
    },
    /// Asks which entries this client must drop from the ledgers of its segments, and confirms earlier drops. No
    /// caller waits for these drops, but a later leader must not find the entries.
    FetchDrops {
        /// The entries that it has dropped since the last request.
        dropped: Vec<RangeDrop>,
        /// Most entries in the answer; [`crate::limits::MAX_FETCHED_DROPS`] bounds it.
        limit: u32,
    },
    /// Takes a segment out of the pool. Its replicas are gone when the reply arrives, or when `grace_ms` has passed.
    UnmountSegment {
        /// The segment.
        id: SegmentId,
        /// How long the segment still serves gets, in milliseconds.
        grace_ms: u64,
        /// Why the segment cannot stay, for operators: its disk failed. Empty if somebody wanted it so.
        failure: &'a str,
    },
    /// Asks for ranges to write new objects to. The result [`ErrorCode::UnavailableInCurrentStatus`] of a put says
    /// that the master is making room by offloading objects: the client asks again later.
    PutStart(PutStart<'a>),
    /// Ends puts: the written objects become readable.
    PutEnd {
        /// The puts to end.
        puts: Vec<PutEnd<'a>>,
    },
    /// Revokes puts that this client started.
    PutRevoke {
        /// The puts to revoke.
        puts: Vec<PutRevoke<'a>>,
    },
    /// Asks where these objects lie. The master grants a lease on each object that it finds.
    GetReplicaList {
        /// The keys.
        keys: Vec<&'a str>,
    },
    /// As [`Request::GetReplicaList`], for keys to which the client has cached routes.
    RenewRoutes {
        /// The keys.
        keys: Vec<&'a str>,
        /// How often the client read each key since it last asked the master for that key.
        uses: Vec<u32>,
    },
    /// Asks which of these objects exist and are complete. The master grants a lease on each of them, unless the
    /// options say otherwise.
    ExistKey {
        /// The keys.
        keys: Vec<&'a str>,
        /// What else the question does.
        options: ExistOptions,
    },
    /// Asks how many of these objects exist and are complete, from the first on without a gap. The master grants a
    /// lease on each object that counts, from a position on.
    PrefixLen {
        /// The keys, in order.
        keys: Vec<&'a str>,
        /// The position of the first key that gets a lease. The objects before it become the most recently used, and
        /// get none.
        leased_from: u32,
    },
    /// Asks the master to have those of these objects copied to memory that lie only on disks. Grants no lease.
    Prefetch {
        /// The keys.
        keys: Vec<&'a str>,
    },
    /// Removes objects.
    Remove {
        /// The keys.
        keys: Vec<&'a str>,
        /// Whether leased objects are removed too.
        force: bool,
    },
    /// Confirms that nodes have dropped entries that [`crate::Remains`] named. The ranges of these entries are free.
    Dropped {
        /// The dropped entries, at most [`crate::limits::MAX_FETCHED_DROPS`]. The master ignores entries that it does
        /// not know.
        dropped: Vec<RangeDrop>,
    },
    /// Asks which of these ranges nodes must still drop. A removal named them in [`crate::Remains`], perhaps under an
    /// earlier leader. A leader that found these versions again in inventories removes them, with all replicas that it
    /// knows of. Later puts of the keys stay. Without keys, only the leader that named the ranges can answer.
    Retract {
        /// The keys of the objects, in any order.
        keys: Vec<&'a str>,
        /// The named ranges, at most [`crate::limits::MAX_FETCHED_DROPS`].
        ranges: Vec<RangeDrop>,
    },
    /// Reports entries of this client's segments whose bytes are lost, although nobody dropped them: a damaged record on
    /// a disk, a changed file. Their objects lose these replicas. The master ignores entries that it does not know.
    ReportLosses {
        /// The key of each entry, at most [`crate::limits::MAX_BATCH_KEYS`].
        keys: Vec<&'a str>,
        /// The entries, in the same order.
        ranges: Vec<RangeDrop>,
    },
    /// One page of a walk over all objects.
    Scan(Scan<'a>),
    /// Drops replicas of objects that this client put, except of leased objects. An object that loses its last replica
    /// is removed.
    ClearReplicas {
        /// The keys.
        keys: Vec<&'a str>,
        /// Only replicas on segments of this name; all replicas if empty.
        segment: &'a str,
    },
    /// Asks the master to have a replica copied or moved in the background. The client that hosts the replica carries
    /// out the task.
    CreateTask(CreateTask<'a>),
    /// Asks for the progress of a task.
    QueryTask {
        /// The task.
        id: TaskId,
    },
    /// Asks for tasks to carry out. The master hands out each task once.
    FetchTasks {
        /// Most tasks in the answer; [`crate::limits::MAX_FETCHED_TASKS`] bounds it.
        limit: u32,
        /// If no task is pending, the master waits up to this many milliseconds for one before it answers.
        /// [`crate::limits::MAX_TASK_WAIT_MS`] bounds it.
        wait_ms: u32,
    },
    /// Asks the master to drain segments of this client: to move their replicas to other segments, as far as there is
    /// room without eviction. If these segments are being drained already, the request only asks for the progress.
    DrainSegments {
        /// The segments.
        segments: Vec<SegmentId>,
    },
    /// Reports that a fetched task has ended.
    EndTask {
        /// The task.
        id: TaskId,
        /// `Ok` if all bytes are in place at every target, else the error.
        outcome: Result<(), ErrorCode>,
    },
}

/// What a question whether objects exist does beside asking; see [`Request::ExistKey`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExistOptions {
    /// Whether the question leaves everything as it is: it grants no lease, and counts as no use.
    pub probe: bool,
    /// Whether the objects that lie on disks only are copied to memory, and within which limits. The answer does not
    /// wait for that.
    pub prefetch: Option<PrefetchLimits>,
}

impl ExistOptions {
    /// A question that leaves everything as it is.
    pub const PROBE: Self = Self { probe: true, prefetch: None };
}

/// Limits on the copies that questions begin; see [`ExistOptions::prefetch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefetchLimits {
    /// For how long no question begins a copy after there was no room for one, in milliseconds; 0: not at all.
    pub cooldown_ms: u32,
    /// For how long no question copies an object again, in milliseconds; 0: not at all.
    pub rest_ms: u32,
}

impl Default for PrefetchLimits {
    /// Five seconds, and thirty, as in the C++ package.
    fn default() -> Self {
        Self { cooldown_ms: 5_000, rest_ms: 30_000 }
    }
}

impl<'a> Request<'a> {
    /// [`Request::ExistKey`] without options.
    #[must_use]
    pub fn exist(keys: Vec<&'a str>) -> Self {
        Self::ExistKey { keys, options: ExistOptions::default() }
    }

    /// [`Request::PrefixLen`] that leases each object that counts.
    #[must_use]
    pub fn prefix_len(keys: Vec<&'a str>) -> Self {
        Self::PrefixLen { keys, leased_from: 0 }
    }
}

impl Request<'_> {
    /// Whether the request changes the object under a key, or may begin to. A new leader delays these requests until
    /// it knows what the nodes hold.
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

/// A segment to lend; see [`Request::MountSegment`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MountSegment<'a> {
    /// The segment's incarnation.
    pub id: SegmentId,
    /// The name under which callers know the segment, `host:port` by default. Several segments may share one name.
    pub name: &'a str,
    /// Where its node serves reads and writes, `host:port`.
    pub endpoint: &'a str,
    /// Its length in bytes.
    pub len: u64,
    /// The highest epoch that the node has obeyed. If it is above the leader's epoch, the leader takes an even higher
    /// one.
    pub seen_epoch: Epoch,
    /// Whether the segment's ledger holds no entry, neither complete nor being written.
    pub is_empty: bool,
    /// The number of processes of this client that have lent a segment that outlives the process, this process
    /// included. Zero if that is not known. A later process may have fewer entries than an earlier one.
    pub run: u64,
    /// The medium that holds its bytes.
    pub medium: Medium,
    /// The failure domains of its node, apart from its host, the nearest first: see
    /// [`FailureDomains`](crate::FailureDomains).
    pub domains: &'a [String],
    /// The key of the seals that its node checks, drawn for this leader; `None` in a pool without secrets.
    pub seal_key: Option<SealKey>,
}

/// Puts to start; see [`Request::PutStart`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PutStart<'a> {
    /// The objects.
    pub puts: Vec<PutItem<'a>>,
    /// Placement and pins, the same for all objects.
    pub config: ReplicateConfig<'a>,
    /// What happens if an object with one of the keys exists.
    pub mode: PutMode,
}

/// What a put does if an object with its key exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PutMode {
    /// The master refuses the put, and the existing object stays.
    #[default]
    Insert,
    /// The new object replaces the existing one when the put ends. Until then readers get the existing one.
    Upsert,
}

/// One object to put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PutItem<'a> {
    /// Its key.
    pub key: &'a str,
    /// Its length in bytes.
    pub len: u64,
    /// The name of the object's group, which never changes; empty for none. Objects of one group share leases and are
    /// evicted together.
    pub group: &'a str,
    /// The session that the object belongs to, for those who follow KV events; empty for none.
    pub session: &'a str,
}

impl<'a> PutItem<'a> {
    /// An object without a group and a session.
    #[must_use]
    pub const fn new(key: &'a str, len: u64) -> Self {
        Self { key, len, group: "", session: "" }
    }
}

/// One object whose bytes are in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PutEnd<'a> {
    /// Its key.
    pub key: &'a str,
    /// The version that was granted.
    pub version: Version,
    /// Bit `i` is set if the write of granted replica `i` failed. The master drops that replica.
    pub failed_replicas: u32,
    /// The failed replicas whose ranges the node could not clear, because readers or older writers still use them. The
    /// master reserves these ranges for a time.
    pub held_replicas: u32,
}

/// One put to revoke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PutRevoke<'a> {
    /// Its key.
    pub key: &'a str,
    /// The version that was granted.
    pub version: Version,
    /// Bit `i` is set if readers or older writers still use the range of granted replica `i`: see
    /// [`PutEnd::held_replicas`].
    pub held_replicas: u32,
}

impl<'a> PutRevoke<'a> {
    /// A put whose ranges no reader or older writer uses.
    #[must_use]
    pub const fn new(key: &'a str, version: Version) -> Self {
        Self { key, version, held_replicas: 0 }
    }
}

/// One page of a walk over all objects, in a deterministic order. The walk meets an object that exists from its begin
/// to its end exactly once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scan<'a> {
    /// Only objects of the tenant of this name: the keys in patterns and replies are then those that it named. If absent,
    /// objects of all tenants, by the keys under which they are stored.
    pub tenant: Option<&'a str>,
    /// Only keys in which this regular expression finds a match (it need not match the whole key); all keys if absent.
    pub pattern: Option<&'a str>,
    /// What the scan does with each object.
    pub action: ScanAction,
    /// Zero for the first page, then the [`next_cursor`](crate::ScanPage::next_cursor) of the page before.
    pub cursor: u64,
    /// Most objects that this page looks at; [`crate::limits::MAX_SCAN_OBJECTS`] bounds it.
    pub limit: u32,
}

/// What a scan does with the objects that match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanAction {
    /// Returns their keys and placements. Grants no lease.
    List,
    /// Removes them: leased ones only if forced, unfinished ones never.
    Remove {
        /// Whether leased objects are removed too.
        force: bool,
    },
}

/// A task to create; see [`Request::CreateTask`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateTask<'a> {
    /// The object's key.
    pub key: &'a str,
    /// Copy or move.
    pub kind: TaskKind,
    /// The segment name of the replica to move; empty for a copy, whose source the master chooses.
    pub source: &'a str,
    /// The segment names on which the task makes replicas: one for a move, at least one for a copy.
    pub targets: Vec<&'a str>,
}
