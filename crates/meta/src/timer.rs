//! The timers of the state machine.

use mooncake_types::{ClientId, SegmentId};

/// What is due at a time of its own. Running puts need no timers: all have the same time limit, so their queue is in
/// the order of their deadlines. Leases need none: eviction and removal compare them with the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// A client may have been silent for its whole time to live.
    Client(ClientId),
    /// The grace period of an unmount ends.
    Grace(SegmentId),
    /// One lease after the end of the grace period: the last routes to the segment have ended.
    RoutesOver(SegmentId),
    /// A soft pin may end.
    SoftPin(u32),
    /// All routes to a leased tombstone have ended.
    LeasedTombstone(u32),
    /// A reservation that outlived its put or copy ends: see [`release`](crate::Meta::release).
    Release(u32),
    /// A task has waited, or run, for too long.
    Task(u64),
    /// A task that found no room is retried.
    Retry(u64),
    /// A client that others could not reach has not pinged in time.
    Doubt(ClientId),
    /// Routes of earlier leaders have ended.
    FormerRoutesOver,
    /// The window in which members may report ends.
    Window,
    /// The longer window in which disks may report ends.
    DiskWindow,
    /// Segments that were reporting may have fallen silent.
    Silence,
    /// A drain job looks at its segments again.
    Drain(u32),
    /// Segments that an earlier leader drained may be back.
    ResumeDrains,
    /// Puts that were under way when the epoch rose may have ended.
    NameAgain,
    /// Operators are told how many objects began to sink, and how many copies failed.
    SinkNotice,
}
