use std::sync::Arc;

use crate::{
    DrainReport, Epoch, ErrorCode, Medium, MountOutcome, RangeDrop, Seal, SegmentId, SegmentPage,
    TaskId, TaskOrders, TaskReport, Version,
};

/// A reply of the master. Lists of results are in the order of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// To [`crate::Request::Ping`].
    Pong(Pong),
    /// To a mount that failed, an unmount, [`crate::Request::ReportInventory`], [`crate::Request::ReportChanges`],
    /// [`crate::Request::Dropped`], [`crate::Request::EndTask`] or [`crate::Request::Leave`].
    Done(Result<(), ErrorCode>),
    /// To [`crate::Request::MountSegment`].
    Mounted(MountOutcome),
    /// To [`crate::Request::FetchDrops`]: the next entries to drop.
    Drops(Vec<RangeDrop>),
    /// To [`crate::Request::PutStart`].
    Granted {
        /// One result per put.
        results: Vec<Result<Grant, ErrorCode>>,
        /// The segments to which the placements refer.
        segments: Vec<SegmentAddress>,
    },
    /// To [`crate::Request::PutEnd`], [`crate::Request::PutRevoke`], [`crate::Request::Remove`],
    /// [`crate::Request::ClearReplicas`] and [`crate::Request::Retract`].
    Statuses(Vec<Result<(), ErrorCode>>),
    /// To [`crate::Request::PutEnd`], [`crate::Request::Remove`], [`crate::Request::ClearReplicas`],
    /// [`crate::Request::Retract`] and [`crate::Request::EndTask`], instead of their plain results: nodes may still
    /// hold versions that were removed or replaced.
    Remaining {
        /// One result per key, or one for the task.
        results: Vec<Result<(), ErrorCode>>,
        /// Ranges that the client has the nodes drop before it reports a success to its caller.
        remains: Remains,
    },
    /// To [`crate::Request::GetReplicaList`].
    Located {
        /// One result per key.
        results: Vec<Result<Located, ErrorCode>>,
        /// Newer versions of some of these keys, each with the position of its key. Those of one key are in growing
        /// order. A client reads a newer version only after it found all replicas of all older versions of the key
        /// dropped.
        successors: Vec<(u32, Located)>,
        /// Ranges of older versions of some of these keys that nodes may still hold, each with the position of its
        /// key. A client has the nodes drop these ranges before it reads. Otherwise a later leader might find them and
        /// serve an older version.
        predecessors: Vec<(u32, RemainingRange)>,
        /// The segments to which the placements and ranges refer.
        segments: Vec<SegmentAddress>,
        /// How long the leases last, in milliseconds, counted from the moment at which the client sent the request.
        lease_ms: u64,
    },
    /// To [`crate::Request::ExistKey`].
    Exist(Vec<Result<bool, ErrorCode>>),
    /// To [`crate::Request::PrefixLen`]: the number of leading keys whose objects exist.
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
    /// The master refused the whole request.
    Refused(ErrorCode),
}

/// The answer to a heartbeat; see [`Reply::Pong`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pong {
    /// The master does not know a segment that the client hosts: the client must mount all its segments again.
    pub need_remount: bool,
    /// The leader's epoch.
    pub epoch: Epoch,
    /// The master treats the client as dead after this long without a ping, in milliseconds.
    pub client_ttl_ms: u64,
    /// Whether tasks wait for this client to fetch them.
    pub has_tasks: bool,
    /// Whether the client must fetch drops, entries of its segments that must go: see [`crate::Request::FetchDrops`].
    pub has_drops: bool,
    /// For this long after it sent the ping, in milliseconds, the client may begin reads with routes of this leader.
    /// Until then, a later leader changes objects only if all members have reported to it.
    pub routes_ms: u64,
    /// The master cannot connect to a segment of this client at its endpoint, and grants no range there.
    pub is_unreached: bool,
}

/// The address of a segment to which placements refer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentAddress {
    /// The segment's incarnation.
    pub id: SegmentId,
    /// The name under which callers know the segment.
    pub name: Arc<str>,
    /// Where its node serves reads and writes, `host:port`.
    pub endpoint: Arc<str>,
    /// The medium that holds its bytes.
    pub medium: Medium,
}

/// The outcome of a prefetch of one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefetch {
    /// The object can be read from memory already.
    InMemory,
    /// A copy to memory is under way.
    UnderWay,
}

/// One range of one replica. The ranges of a replica are consecutive, in the order of the object's bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// The replica that this range belongs to, from 0.
    pub replica: u32,
    /// Index into the reply's list of segments.
    pub segment: u32,
    /// Where the range starts in its segment, in bytes.
    pub offset: u64,
    /// Length of the range in bytes.
    pub len: u64,
    /// The master's seal on what the reply allows: to read the range, or to write it.
    pub seal: Seal,
}

/// The permission to write the ranges of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    /// The version of this put.
    pub version: Version,
    /// The granted ranges; every replica holds the whole object.
    pub placements: Vec<Placement>,
    /// Opaque bytes that a later leader needs about the object. The client sends them with every write of it, and the
    /// nodes keep them. At most [`crate::limits::MAX_ATTRIBUTES_BYTES`], nearly always none.
    pub attributes: Vec<u8>,
    /// The master's seals on drops of what was written under the grant, one for each placement; empty in a pool without
    /// secrets.
    pub drop_seals: Vec<Seal>,
}

/// Where one object lies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Located {
    /// The version in these placements.
    pub version: Version,
    /// The object's length in bytes.
    pub len: u64,
    /// Its complete replicas.
    pub placements: Vec<Placement>,
}

/// Ranges of versions that the master removed or replaced, and that nodes may still hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remains {
    /// The ranges.
    pub ranges: Vec<RemainingRange>,
    /// The segments to which the ranges refer.
    pub segments: Vec<SegmentAddress>,
    /// How long readers may still have a route to these ranges, in milliseconds from now; zero if none has.
    pub lease_ms: u64,
}

/// One range of a version that was removed or replaced; see [`Remains`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemainingRange {
    /// Index into the list of segments.
    pub segment: u32,
    /// Where the range starts in its segment, in bytes.
    pub offset: u64,
    /// The version that the node may hold there.
    pub version: Version,
    /// The newest grant under which it can have been written; see [`RangeDrop::grant`].
    pub grant: Version,
    /// The master's seal on this drop.
    pub seal: Seal,
}

/// One page of a scan; see [`Reply::Scanned`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScanPage {
    /// The [`crate::Scan::cursor`] of the next page; absent on the last page.
    pub next_cursor: Option<u64>,
    /// How many objects this page removed.
    pub removed: u64,
    /// Ranges of the removed objects that nodes may still hold; see [`Reply::Remaining`].
    pub remains: Box<Remains>,
    /// The objects that were found, for [`crate::ScanAction::List`].
    pub objects: Vec<(String, Located)>,
    /// The segments to which the placements refer.
    pub segments: Vec<SegmentAddress>,
}
