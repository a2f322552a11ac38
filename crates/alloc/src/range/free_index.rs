use std::collections::BTreeMap;

/// The holes by offset. Only [`alloc_at`](super::RangeAllocator::alloc_at) uses it, so it exists only during recovery.
/// The first `alloc_at` builds it. The allocator drops it after more updates without an `alloc_at` than building it
/// took steps.
#[derive(Clone, Debug)]
pub(crate) struct FreeIndex {
    by_offset: BTreeMap<u64, u32>,
    cost: usize,
    unasked: usize,
}

/// Whether the allocator should keep the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndexUse {
    Keeping,
    /// Updating it has cost more than building it again would.
    Idle,
}

impl FreeIndex {
    /// An index of these holes. Collecting them took `cost` steps.
    pub(crate) fn new(holes: impl Iterator<Item = (u64, u32)>, cost: usize) -> FreeIndex {
        FreeIndex { by_offset: holes.collect(), cost, unasked: 0 }
    }

    /// Records that a hole moved from offset `from` to the offset in `to`. Without `from`, the hole is new; without
    /// `to`, it is gone.
    pub(crate) fn update(&mut self, from: Option<u64>, to: Option<(u64, u32)>) -> IndexUse {
        if let Some(offset) = from {
            self.by_offset.remove(&offset);
        }
        if let Some((offset, at)) = to {
            self.by_offset.insert(offset, at);
        }
        self.unasked += 1;
        let idle = self.unasked > self.cost.max(self.by_offset.len());
        if idle { IndexUse::Idle } else { IndexUse::Keeping }
    }

    /// The last hole that starts at or before `offset`.
    pub(crate) fn find(&mut self, offset: u64) -> Option<u32> {
        self.unasked = 0;
        self.by_offset.range(..=offset).next_back().map(|(_, &at)| at)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u32)> {
        self.by_offset.iter().map(|(&offset, &at)| (offset, at))
    }

    /// An estimate that assumes nodes of the map to be two thirds full.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.by_offset.len() * size_of::<(u64, u32)>() * 3 / 2
    }
}
