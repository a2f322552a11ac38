//! What was reserved on a segment and is no range of an object yet, or no more.

use mooncake_alloc::Handle;
use smallvec::SmallVec;

/// A range that was reserved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) segment: u32,
    pub(crate) handle: Handle,
    pub(crate) len: u64,
}

/// The ranges of one replica, in the order of the bytes: nearly always one, which needs no memory of its own.
pub(crate) type Pieces = SmallVec<[Piece; 1]>;
