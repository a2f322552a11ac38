use std::num::NonZeroU32;

/// Names one live range of the allocator that returned it, until the range is freed. It takes four bytes, also in an
/// `Option`.
///
/// Allocators reuse handles: a freed handle may later name another range of the same allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(NonZeroU32);

impl Handle {
    pub(crate) fn new(index: u32) -> Handle {
        Handle(NonZeroU32::new(index).expect("index 0 never names a live range"))
    }

    pub(crate) fn index(self) -> u32 {
        self.0.get()
    }

    /// A number that no other live range of the allocator has. Numbers stay small: hardly any exceeds the highest
    /// number of ranges that were live at one time.
    pub fn number(self) -> u32 {
        self.index()
    }
}

/// A range that was just reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// The handle that frees it.
    pub handle: Handle,
    /// The offset of its first byte.
    pub offset: u64,
}

/// The neighbours on one side of a live range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Neighbour {
    /// Free bytes directly beside it.
    pub free: u64,
    /// The live range beyond the free bytes. `None` at the edge of the arena, or if the allocator does not know it.
    pub next: Option<Handle>,
}

/// A part of the arena: `[offset, offset + len)`, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Offset of the first byte.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
}
