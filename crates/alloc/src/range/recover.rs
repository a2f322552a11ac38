use super::free_index::FreeIndex;
use super::nodes::{Hole, Link, MAX_LIVE, Nodes};
use super::{RangeAllocator, granule};
use crate::{Allocation, Handle, Range};

impl RangeAllocator {
    /// Reserves exactly `[offset, offset + len)`, which recovery knows to be in use. `None` if `len` is zero, or
    /// the range is not free or not inside the arena.
    ///
    /// Calls may come in any order. A call takes a time that grows with the logarithm of the number of holes. The
    /// first call after normal operation visits every hole once.
    pub fn alloc_at(&mut self, offset: u64, len: u64) -> Option<Allocation> {
        let end = offset.checked_add(len)?;
        if len == 0 || end > self.capacity() || self.live == MAX_LIVE {
            return None;
        }
        self.settle();
        let nodes = &self.nodes;
        let at = self.index.get_or_insert_with(|| Box::new(index_of(nodes))).find(offset)?;
        let Hole { range, prev, next, .. } = *self.nodes.hole(at);
        let range_end = range.offset + range.len;
        if end > range_end {
            return None;
        }
        self.used += len;
        self.live += 1;
        if range.offset == offset && end < range_end {
            // The usual case, since recovery reserves ranges in ascending order: the hole then begins later.
            self.resize_hole(at, Range { offset: end, len: range_end - end });
            let place = self.nodes.insert(offset, prev, Link::hole(at));
            return Some(Allocation { handle: Handle::new(place), offset });
        }
        self.remove_hole(at);
        let place = self.nodes.insert(offset, prev, Link::live(next));
        if range.offset < offset {
            self.insert_hole(Range { len: offset - range.offset, ..range }, prev, place);
        }
        if end < range_end {
            self.insert_hole(Range { offset: end, len: range_end - end }, place, next);
        }
        Some(Allocation { handle: Handle::new(place), offset })
    }

    /// Reserves the range at `offset` that [`alloc`](Self::alloc) returned earlier for `len` bytes. The length is
    /// rounded up as in `alloc`, but not past `free_until`, where the next range in use starts. `None` as in
    /// [`alloc_at`](Self::alloc_at), or if the bytes reach past `free_until`.
    pub fn occupy(&mut self, offset: u64, len: u64, free_until: u64) -> Option<Allocation> {
        let room = free_until.min(self.capacity()).checked_sub(offset)?;
        if len == 0 || room < len {
            return None;
        }
        self.alloc_at(offset, granule::reserve_len(len).min(room))
    }
}

/// Builds the index from all holes.
fn index_of(nodes: &Nodes) -> FreeIndex {
    FreeIndex::new(nodes.holes().map(|(at, hole)| (hole.range.offset, at)), nodes.places().1)
}
