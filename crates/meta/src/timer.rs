//! The timers of the state machine.

use mooncake_types::{ClientId, SegmentId};

/// What is due at a moment of its own. Running puts need no timers: their queue is in the order of their starts. Leases
/// need none: they are looked at when something is to be evicted or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// A client may have been silent for its whole time to live.
    Client(ClientId),
    /// The grace period of an unmount ends.
    Grace(SegmentId),
    /// Nobody can have a route from within the grace period any more.
    RoutesOver(SegmentId),
    /// A soft pin may end.
    SoftPin(u32),
    /// Nobody can have a route to a leased tombstone any more.
    LeasedTombstone(u32),
    /// Ranges that outlived their put or copy are free: see [`release`](crate::Meta::release).
    Release(u32),
    /// A task has been waiting, or worked on, for too long.
    Task(u64),
    /// A task that found no room is tried again.
    Retry(u64),
    /// A client that others could not reach has not pinged since.
    Doubt(ClientId),
    /// Routes from under an earlier leader are over.
    Settle,
    /// Members have had their time to report.
    Window,
    /// Disks have, too.
    DiskWindow,
    /// A drain job looks at its segments again.
    Drain(u32),
    /// Puts that were under way when the epoch changed may be over.
    NameAgain,
    /// What became of victims is told.
    SinkNotice,
}
