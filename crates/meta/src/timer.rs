//! The timers of the state machine.

use mooncake_types::{ClientId, SegmentId};

/// What is due at a moment of its own. Running puts need no timers: all have the same time to end, and their queue is in the
/// order of their starts. Leases need none: eviction and removal look at them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// A client may have been silent for its whole time to live.
    Client(ClientId),
    /// The grace period of an unmount ends.
    Grace(SegmentId),
    /// Routes that readers got within the grace period have ended.
    RoutesOver(SegmentId),
    /// A soft pin may end.
    SoftPin(u32),
    /// All routes to a leased tombstone have ended.
    LeasedTombstone(u32),
    /// Ranges that outlived their put or copy are free: see [`release`](crate::Meta::release).
    Release(u32),
    /// A task has waited, or run, for too long.
    Task(u64),
    /// A task that found no room is tried again.
    Retry(u64),
    /// A client that others could not reach may not have pinged since.
    Doubt(ClientId),
    /// Routes of earlier leaders have ended.
    FormerRoutesOver,
    /// The time in which members may report is over.
    Window,
    /// The longer time in which disks may report is over.
    DiskWindow,
    /// A drain job looks at its segments again.
    Drain(u32),
    /// Puts that were under way when the epoch changed may be over.
    NameAgain,
    /// Clients that wait for room are told what became of victims.
    SinkNotice,
}
