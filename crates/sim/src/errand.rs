//! What the heartbeat of a node is told, and what follows from what its node did.

use std::cell::Cell;
use std::rc::Rc;

use mooncake_client::membership::Lent;
use mooncake_types::{ErrorCode, SegmentId, Tick};

/// What the heartbeat is told, between two of its deeds.
pub(crate) enum Change {
    /// The master has this segment, and is to keep it.
    Lend(Lent),
    /// The master is not to have the segment any more, of which this is told what it is called now. It is served on for a
    /// while, or not.
    TakeBack { taken: Rc<Cell<Option<(SegmentId, Tick)>>>, is_served: bool },
    /// Whether the master has this segment is unknown; it is not to have it.
    Disown(SegmentId),
}

/// What follows from what a node did.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Errand {
    /// The segment is to be taken back now.
    Leave,
    /// The master was told, and answered.
    Left { id: SegmentId, grace_ms: u64, result: Result<(), ErrorCode> },
    /// A segment is to be lent now.
    Come,
    /// The master has mounted it.
    Came { id: SegmentId },
    /// The master has not, or that is unknown.
    Stay { id: SegmentId, is_unsure: bool },
}
