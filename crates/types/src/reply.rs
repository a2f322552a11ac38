use std::sync::Arc;

use crate::{
    DrainReport, Epoch, ErrorCode, Medium, MountOutcome, RangeDrop, SegmentId, SegmentPage, TaskId,
    TaskOrders, TaskReport, Version,
};

/// What the master answers. Lists of results stand in the order of what was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// To [`crate::Request::Ping`].
    Pong(Pong),
    /// To a mount that failed, an unmount, [`crate::Request::ReportInventory`], [`crate::Request::ReportChanges`],
    /// [`crate::Request::Dropped`], [`crate::Request::EndTask`] or [`crate::Request::Leave`].
    Done(Result<(), ErrorCode>),
    /// To [`crate::Request::MountSegment`].
    Mounted(MountOutcome),
    /// To [`crate::Request::FetchDrops`]: what is to be dropped next.
    Drops(Vec<RangeDrop>),
    /// To [`crate::Request::PutStart`].
    Granted {
        /// One result per put.
        results: Vec<Result<Grant, ErrorCode>>,
        /// The segments that the placements point into.
        segments: Vec<SegmentAddress>,
    },
    /// To [`crate::Request::PutEnd`], [`crate::Request::PutRevoke`],
    /// [`crate::Request::Remove`] and [`crate::Request::ClearReplicas`].
    Statuses(Vec<Result<(), ErrorCode>>),
    /// To [`crate::Request::PutEnd`], [`crate::Request::Remove`], [`crate::Request::ClearReplicas`] and
    /// [`crate::Request::EndTask`], instead of their plain results, and to [`crate::Request::Retract`]: nodes may still hold
    /// versions that were removed or replaced.
    Remaining {
        /// One result per key, or one of the task.
        results: Vec<Result<(), ErrorCode>>,
        /// What the client has the nodes drop before it tells its caller of a success.
        remains: Remains,
    },
    /// To [`crate::Request::GetReplicaList`].
    Located {
        /// One result per key.
        results: Vec<Result<Located, ErrorCode>>,
        /// Newer versions of some of these keys, each with the position of its key; those of one key in growing order.
        /// A client reads one of them only after it found all replicas of all older versions of the key dropped.
        successors: Vec<(u32, Located)>,
        /// What nodes may still hold of older versions of some of these keys, each with the position of its key. A client
        /// has the nodes drop these before it reads: otherwise a later leader might find them, and serve an older version.
        predecessors: Vec<(u32, RemainingRange)>,
        /// The segments that the placements and ranges point into.
        segments: Vec<SegmentAddress>,
        /// How long the leases last, in milliseconds from the moment the request was sent.
        lease_ms: u64,
    },
    /// To [`crate::Request::ExistKey`].
    Exist(Vec<Result<bool, ErrorCode>>),
    /// To [`crate::Request::PrefixLen`]: never more than there are keys.
    PrefixLen(u32),
    /// To [`crate::Request::Prefetch`].
    Prefetched(Vec<Result<Prefetch, ErrorCode>>),
    /// To [`crate::Request::Scan`].
    Scanned(ScanPage),
    /// To [`crate::Request::CreateTask`].
    TaskCreated(TaskId),
    /// To [`crate::Request::QueryTask`].
    TaskReported(TaskReport),
    /// To [`crate::Request::FetchTasks`].
    TasksFetched(TaskOrders),
    /// To [`crate::Request::DrainSegments`].
    Draining(Box<DrainReport>),
    /// To [`crate::Request::ListSegments`].
    Segments(SegmentPage),
    /// The whole request was refused.
    Refused(ErrorCode),
}

/// See [`Reply::Pong`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pong {
    /// The master lacks a segment that the client hosts: mount all of them again.
    pub need_remount: bool,
    /// The leader's epoch.
    pub epoch: Epoch,
    /// The client counts as dead after this long without a ping, in milliseconds.
    pub client_ttl_ms: u64,
    /// Tasks wait for this client to fetch them.
    pub has_tasks: bool,
    /// Ledger entries of this client's segments wait to be dropped: see [`crate::Request::FetchDrops`].
    pub has_drops: bool,
    /// Reads may begin with routes of this leader for so long after the ping was sent, in milliseconds: until then a later
    /// leader changes objects only if all members have reported to it.
    pub routes_ms: u64,
    /// The master cannot connect to this client where it says that it serves: nothing is put there.
    pub is_unreached: bool,
}

/// A segment that placements point to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentAddress {
    /// The segment's incarnation.
    pub id: SegmentId,
    /// The name that callers know it by.
    pub name: Arc<str>,
    /// Where its node serves reads and writes, `host:port`.
    pub endpoint: Arc<str>,
    /// What its bytes lie in.
    pub medium: Medium,
}

/// What a prefetch of one object has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefetch {
    /// It can be read from memory already.
    InMemory,
    /// A copy of it is on its way to memory.
    UnderWay,
}

/// One range of one replica. The ranges of a replica stand together, in the order of the object's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The replica that this range belongs to, from 0.
    pub replica: u32,
    /// Index into the reply's list of segments.
    pub segment: u32,
    /// Where the range starts in its segment, in bytes.
    pub offset: u64,
    /// Length of the range in bytes.
    pub len: u64,
}

/// The right to write one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    /// The version of this put.
    pub version: Version,
    /// Where to write; every replica holds the whole object.
    pub placements: Vec<Placement>,
    /// What a later leader must know of the object: opaque bytes that the client sends with every write of it, and that the
    /// nodes keep. At most [`crate::limits::MAX_ATTRIBUTES_BYTES`], nearly always none.
    pub attributes: Vec<u8>,
}

/// Where one object lies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Located {
    /// The version that lies there.
    pub version: Version,
    /// The object's length in bytes.
    pub len: u64,
    /// Its complete replicas.
    pub placements: Vec<Placement>,
}

/// Ranges of versions that the master has removed or replaced, and whose nodes may still hold them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remains {
    /// The ranges.
    pub ranges: Vec<RemainingRange>,
    /// The segments that the ranges point into.
    pub segments: Vec<SegmentAddress>,
    /// How long readers may still have a route to these ranges, in milliseconds from now; zero if none has.
    pub lease_ms: u64,
}

/// See [`Remains`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemainingRange {
    /// Index into the list of segments.
    pub segment: u32,
    /// Where the range starts in its segment, in bytes.
    pub offset: u64,
    /// The version that lies there.
    pub version: Version,
    /// The newest grant that it can have been written under; see [`RangeDrop::grant`].
    pub grant: Version,
}

/// See [`Reply::Scanned`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScanPage {
    /// Where the next page starts; absent when the walk is over.
    pub next_cursor: Option<u64>,
    /// How many objects this page removed.
    pub removed: u64,
    /// What the nodes still hold of those that were removed; see [`Reply::Remaining`].
    pub remains: Box<Remains>,
    /// The objects that were found, for [`crate::ScanAction::List`].
    pub objects: Vec<(String, Located)>,
    /// The segments that the placements point into.
    pub segments: Vec<SegmentAddress>,
}
