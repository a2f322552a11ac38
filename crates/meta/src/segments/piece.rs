//! Reserved ranges that do not belong to an object yet, or any more.

use mooncake_alloc::Handle;
use smallvec::SmallVec;

/// A reserved range.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) segment: u32,
    pub(crate) handle: Handle,
    pub(crate) len: u64,
}

/// The ranges of one replica, in the order of the bytes. There is nearly always one, which needs no memory on the
/// heap.
pub(crate) type Pieces = SmallVec<[Piece; 1]>;
