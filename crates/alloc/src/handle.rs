use std::num::NonZeroU32;

/// Names one live range of the allocator that returned it, until it is freed. Four bytes, also in an `Option`.
///
/// Handles are reused: one that was freed may later name another range of the same allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(NonZeroU32);

impl Handle {
    pub(crate) fn new(index: u32) -> Handle {
        Handle(NonZeroU32::new(index).expect("index 0 never names a live range"))
    }

    pub(crate) fn index(self) -> u32 {
        self.0.get()
    }

    /// A number that no other live range of the allocator has. Numbers are small: few are larger than the most ranges
    /// that were ever live.
    pub fn number(self) -> u32 {
        self.index()
    }
}

/// A range that was just allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// What to free it by.
    pub handle: Handle,
    /// Its first byte.
    pub offset: u64,
}

/// What lies on one side of a live range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Neighbour {
    /// Free bytes right beside it.
    pub free: u64,
    /// The live range beyond the free bytes. None at the edge of the arena, or if the allocator does not know it.
    pub next: Option<Handle>,
}

/// A stretch of the arena: `[offset, offset + len)`, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
}
