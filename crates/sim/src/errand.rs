//! Messages between the threads of a node that takes its segment back: to its heartbeat, and to its lender thread.

use std::cell::Cell;
use std::rc::Rc;

use mooncake_client::membership::Lent;
use mooncake_types::{ErrorCode, SegmentId, Tick};

/// The id of a segment that the heartbeat has taken back, and when all promises in it end. Empty until then.
pub(crate) type Taken = Rc<Cell<Option<(SegmentId, Tick)>>>;

/// A change to the lent segments. The heartbeat applies it before its next step.
pub(crate) enum Change {
    /// The master has mounted this segment: heartbeats name it from now on.
    Lend(Lent),
    /// Heartbeats stop naming the segment in memory. The heartbeat writes its id to `taken`; the node goes on serving
    /// it.
    TakeBack { taken: Taken },
    /// The master may have mounted this segment: the heartbeat unmounts it.
    Unmount(SegmentId),
}

/// The next step of a node that takes a segment back or lends one.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LenderStep {
    /// Take the segment back now.
    Leave,
    /// All promises have ended: ask the master to unmount the segment. The node serves it for `grace_ms` more.
    Unmount { id: SegmentId, grace_ms: u64 },
    /// The master answered the request to unmount.
    Left { id: SegmentId, grace_ms: u64, result: Result<(), ErrorCode> },
    /// Lend a segment now.
    Come,
    /// The master has mounted it.
    Came { id: SegmentId },
    /// The master did not mount the segment; with `is_unsure` it may have.
    Stay { id: SegmentId, is_unsure: bool },
}
