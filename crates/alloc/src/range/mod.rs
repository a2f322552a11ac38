mod check;
mod class;
mod free_index;
mod free_lists;
mod granule;
mod nodes;
mod recover;
mod spare;

use crate::{Allocation, Handle, Neighbour, Range};
use free_index::{FreeIndex, IndexUse};
use free_lists::FreeLists;
pub use granule::MAX_GRANULE;
use nodes::{Hole, Link, Live, MAX_LIVE, NIL, NodeKind, Nodes, SENTINEL};
use spare::Spare;

/// The size class of a length. It grows with the length; lengths of one class differ by less than 1/32.
pub fn class_of(len: u64) -> u32 {
    class::floor(len)
}

/// Number of holes of the length's own class that `alloc` tries before it cuts a hole of a higher class.
const NEAR_STEPS: u32 = 4;

/// Number of holes of the length's own class that `alloc` tries before it gives up.
const LAST_STEPS: u32 = 32;

/// Allocates ranges of any length over `[0, len)`, in a time that does not depend on the number of ranges.
///
/// A length is rounded up by at most 1/64; [`range`](Self::range) returns the reserved length. A hole is a free range.
/// Holes are in lists by size class, 32 classes to each power of two, and a freed range is joined with neighbouring
/// holes. The search for a hole has three steps:
/// 1. a few holes of the length's own class;
/// 2. the first hole of the next class that has any;
/// 3. more holes of the length's own class.
///
/// After `None`, no hole is longer than `len` by 1/32 or more. A hole that fits can only be behind 32 others of nearly
/// the same length.
///
/// The range that was freed last stays whole until the next change. If that change reserves exactly its length, it
/// gets this range.
///
/// A live range takes 16 bytes and a hole 32, in tables that grow by an eighth. In addition, an allocator has tables
/// of at most 8 KiB.
#[derive(Clone, Debug)]
pub struct RangeAllocator {
    nodes: Nodes,
    lists: FreeLists,
    /// The range that was freed last, until it becomes a hole.
    spare: Option<Spare>,
    index: Option<Box<FreeIndex>>,
    used: u64,
    live: u32,
}

impl RangeAllocator {
    /// An arena of `len` bytes, all free. An arena of zero bytes serves nothing.
    pub fn new(len: u64) -> RangeAllocator {
        let (nodes, lists) = (Nodes::new(len), FreeLists::new(len));
        let mut allocator =
            RangeAllocator { nodes, lists, spare: None, index: None, used: 0, live: 0 };
        if len > 0 {
            allocator.insert_hole(Range { offset: 0, len }, SENTINEL, SENTINEL);
        }
        allocator
    }

    /// Reserves at least `len` bytes. `None` if `len` is zero or no free range is found.
    pub fn alloc(&mut self, len: u64) -> Option<Allocation> {
        if len == 0 || len > self.capacity() {
            return None;
        }
        self.alloc_rounded(len, granule::reserve_len(len))
    }

    /// Reserves exactly `len` bytes. `None` if `len` is zero or no free range is found.
    pub(crate) fn alloc_exact(&mut self, len: u64) -> Option<Allocation> {
        if len == 0 || len > self.capacity() {
            return None;
        }
        self.alloc_rounded(len, len)
    }

    /// Reserves `rounded` bytes. If no hole is that long, reserves a whole hole of at least `len` bytes.
    fn alloc_rounded(&mut self, len: u64, rounded: u64) -> Option<Allocation> {
        if let Some(allocation) = self.take_spare(rounded) {
            return Some(allocation);
        }
        self.settle();
        if self.live == MAX_LIVE {
            return None;
        }
        let at = self.find(len, rounded)?;
        let Hole { range: Range { offset, len: free }, prev, next, .. } = *self.nodes.hole(at);
        let place = if free <= rounded {
            self.remove_hole(at);
            self.nodes.insert(offset, prev, Link::live(next))
        } else {
            self.resize_hole(at, Range { offset: offset + rounded, len: free - rounded });
            self.nodes.insert(offset, prev, Link::hole(at))
        };
        self.used += free.min(rounded);
        self.live += 1;
        Some(Allocation { handle: Handle::new(place), offset })
    }

    /// Finds a hole of at least `rounded` bytes, otherwise one of at least `len`.
    fn find(&self, len: u64, rounded: u64) -> Option<u32> {
        let (own, above) = class::around(rounded);
        if own != above
            && let Some(near) = self.walk(own, rounded, NEAR_STEPS)
        {
            return Some(near);
        }
        let good = self.lists.first_from(above);
        if good != NIL {
            return Some(good);
        }
        let below = class::floor(len);
        (below..=own).rev().find_map(|class| self.walk(class, len, LAST_STEPS))
    }

    /// Finds the first hole of at least `len` bytes among the first `steps` holes of a class.
    fn walk(&self, class: u32, len: u64, steps: u32) -> Option<u32> {
        let mut at = self.lists.head(class);
        for _ in 0..steps {
            if at == NIL {
                return None;
            }
            let hole = self.nodes.hole(at);
            if hole.range.len >= len {
                return Some(at);
            }
            at = hole.list_next;
        }
        None
    }

    /// The reserved range of `handle`, with the rounded length.
    ///
    /// # Panics
    /// If `handle` names no live range.
    pub fn range(&self, handle: Handle) -> Range {
        let Live { offset, next, .. } = *self.nodes.live(self.expect_live(handle));
        Range { offset, len: self.nodes.start(next) - offset }
    }

    /// The longest length for which [`alloc`](Self::alloc) surely serves it and every shorter one now; 0 if nothing is
    /// free. The longest hole is at most 1/32 longer.
    pub fn largest_free(&self) -> u64 {
        let hole = match self.lists.last() {
            NIL => 0,
            at => self.nodes.hole(at).range.len,
        };
        hole.max(self.spare.map_or(0, |spare| spare.len))
    }

    /// The size class of the longest free range; 0 if nothing is free.
    pub fn largest_class(&self) -> u32 {
        self.lists.last_class().max(self.spare.map_or(0, |spare| class::floor(spare.len)))
    }

    /// The neighbours before and after a live range, in this order.
    ///
    /// # Panics
    /// If `handle` names no live range.
    pub fn neighbours(&mut self, handle: Handle) -> [Neighbour; 2] {
        self.settle();
        let Live { prev, next, .. } = *self.nodes.live(self.expect_live(handle));
        let beyond = |link: Link, far: fn(&Hole) -> u32| {
            let (free, at) = match link.kind() {
                NodeKind::Live(at) => (0, at),
                NodeKind::Hole(at) => (self.nodes.hole(at).range.len, far(self.nodes.hole(at))),
            };
            Neighbour { free, next: (at != SENTINEL).then(|| Handle::new(at)) }
        };
        [beyond(prev, |hole| hole.prev), beyond(next, |hole| hole.next)]
    }

    /// Reserved bytes, including those added by rounding.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Length of the arena, in bytes.
    pub fn capacity(&self) -> u64 {
        self.nodes.live(SENTINEL).offset
    }

    /// Number of live ranges.
    pub fn allocations(&self) -> usize {
        self.live as usize
    }

    /// Bytes of heap memory that the allocator itself uses.
    pub fn heap_bytes(&self) -> usize {
        let index = self.index.as_ref().map_or(0, |index| index.heap_bytes());
        self.nodes.heap_bytes() + self.lists.heap_bytes() + index
    }

    fn expect_live(&self, handle: Handle) -> u32 {
        let at = handle.index();
        assert!(
            self.nodes.get(at).is_some() && !self.is_spare(at),
            "handle {at} names no live range: it was freed before, or another allocator returned it"
        );
        at
    }

    /// Inserts a hole between two live ranges.
    fn insert_hole(&mut self, range: Range, prev: u32, next: u32) {
        let at = self.nodes.insert_hole(range, prev, next);
        self.lists.push(&mut self.nodes, at);
        self.reindex(None, Some((range.offset, at)));
    }

    /// Makes the place of a hole vacant. The caller must update the links of its neighbours.
    fn remove_hole(&mut self, at: u32) {
        let offset = self.nodes.hole(at).range.offset;
        self.lists.remove(&mut self.nodes, at);
        self.nodes.vacate_hole(at);
        self.reindex(Some(offset), None);
    }

    /// Gives a hole another range.
    fn resize_hole(&mut self, at: u32, range: Range) {
        let old = self.nodes.hole(at).range;
        if class::floor(old.len) == class::floor(range.len) {
            self.nodes.hole_mut(at).range = range;
        } else {
            self.lists.remove(&mut self.nodes, at);
            self.nodes.hole_mut(at).range = range;
            self.lists.push(&mut self.nodes, at);
        }
        self.reindex(Some(old.offset), Some((range.offset, at)));
    }

    /// Updates the index, if there is one, as [`FreeIndex::update`]. Drops the index if it is idle.
    fn reindex(&mut self, from: Option<u64>, to: Option<(u64, u32)>) {
        if self.index.as_mut().is_some_and(|index| index.update(from, to) == IndexUse::Idle) {
            self.index = None;
        }
    }
}
