use crate::{Allocation, Handle, Neighbour, Range, RangeAllocator, SlabAllocator, class_of};

/// One of the allocators that an operator can choose for a segment.
#[derive(Clone, Debug)]
pub enum Allocator {
    /// `offset`: see [`RangeAllocator`].
    Offset(RangeAllocator),
    /// `cachelib`: see [`SlabAllocator`].
    Cachelib(SlabAllocator),
}

/// Evaluates the same expression on either allocator.
macro_rules! either {
    ($self:expr, $allocator:ident => $call:expr) => {
        match $self {
            Allocator::Offset($allocator) => $call,
            Allocator::Cachelib($allocator) => $call,
        }
    };
}

impl Allocator {
    /// Reserves at least `len` bytes. `None` if `len` is zero or no free range is found.
    pub fn alloc(&mut self, len: u64) -> Option<Allocation> {
        either!(self, a => a.alloc(len))
    }

    /// Reserves `[offset, offset + len)`, which recovery knows to be in use. `None` if it is not free, not inside the
    /// arena, or not a range that this allocator returns for that length.
    pub fn alloc_at(&mut self, offset: u64, len: u64) -> Option<Allocation> {
        either!(self, a => a.alloc_at(offset, len))
    }

    /// Reserves the range at `offset` that [`alloc`](Self::alloc) returned earlier for `len` bytes. The length is
    /// rounded up as in `alloc`, but not past `free_until`, where the next range in use starts. `None` as in
    /// [`alloc_at`](Self::alloc_at), or if the bytes reach past `free_until`.
    pub fn occupy(&mut self, offset: u64, len: u64, free_until: u64) -> Option<Allocation> {
        either!(self, a => a.occupy(offset, len, free_until))
    }

    /// Frees a range.
    ///
    /// # Panics
    /// If `handle` names no live range.
    pub fn free(&mut self, handle: Handle) {
        either!(self, a => a.free(handle));
    }

    /// The reserved range of `handle`, at least as long as requested.
    ///
    /// # Panics
    /// If `handle` names no live range.
    pub fn range(&self, handle: Handle) -> Range {
        either!(self, a => a.range(handle))
    }

    /// A length that [`alloc`](Self::alloc) can serve now; 0 if it can serve none. It may serve a longer one too.
    pub fn largest_free(&self) -> u64 {
        either!(self, a => a.largest_free())
    }

    /// The size class of the longest free range: [`alloc`](Self::alloc) serves no length of a higher class now. See
    /// [`class_of`].
    pub fn largest_class(&self) -> u32 {
        match self {
            Allocator::Offset(allocator) => allocator.largest_class(),
            Allocator::Cachelib(allocator) => class_of(allocator.largest_free()),
        }
    }

    /// The neighbours before and after a live range, in this order. The slab allocator does not know them and returns
    /// defaults.
    ///
    /// # Panics
    /// If `handle` names no live range.
    pub fn neighbours(&mut self, handle: Handle) -> [Neighbour; 2] {
        match self {
            Allocator::Offset(allocator) => allocator.neighbours(handle),
            Allocator::Cachelib(_) => [Neighbour::default(); 2],
        }
    }

    /// Whether the allocator joins neighbouring free ranges to one.
    pub fn joins_neighbours(&self) -> bool {
        matches!(self, Allocator::Offset(_))
    }

    /// Reserved bytes, including those added by rounding.
    pub fn used(&self) -> u64 {
        either!(self, a => a.used())
    }

    /// Length of the arena, in bytes.
    pub fn capacity(&self) -> u64 {
        either!(self, a => a.capacity())
    }

    /// Number of live ranges.
    pub fn allocations(&self) -> usize {
        either!(self, a => a.allocations())
    }

    /// Bytes of heap memory that the allocator itself uses.
    pub fn heap_bytes(&self) -> usize {
        either!(self, a => a.heap_bytes())
    }

    /// Verifies every invariant, in time that grows with the number of ranges. For tests.
    ///
    /// # Errors
    /// A sentence that names the first broken invariant.
    pub fn check(&self) -> Result<(), String> {
        either!(self, a => a.check())
    }
}
