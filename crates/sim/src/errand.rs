//! What the heartbeat of a node is told, and what follows from what its node did.

use std::cell::Cell;
use std::rc::Rc;

use mooncake_client::membership::Lent;
use mooncake_types::{ErrorCode, SegmentId, Tick};

/// What a segment is called that the heartbeat names no more, and when all that it promised is over.
pub(crate) type Taken = Rc<Cell<Option<(SegmentId, Tick)>>>;

/// What the heartbeat is told, between two of its deeds.
pub(crate) enum Change {
    /// The master has this segment, and is to keep it.
    Lend(Lent),
    /// The master is not to have the segment any more, of which this is told what it is called now. It is served on.
    TakeBack { taken: Taken },
    /// Whether the master has this segment is unknown; it is not to have it.
    Unmount(SegmentId),
}

/// What follows from what a node did.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Errand {
    /// The segment is to be taken back now.
    Leave,
    /// All promises are over: the master is to unmount it. It is served for `grace_ms` more.
    Unmount { id: SegmentId, grace_ms: u64 },
    /// The master was told, and answered.
    Left { id: SegmentId, grace_ms: u64, result: Result<(), ErrorCode> },
    /// A segment is to be lent now.
    Come,
    /// The master has mounted it.
    Came { id: SegmentId },
    /// The master has not, or that is unknown.
    Stay { id: SegmentId, is_unsure: bool },
}
