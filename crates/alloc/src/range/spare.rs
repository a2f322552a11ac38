use super::nodes::{Live, NodeKind};
use super::{Range, RangeAllocator};
use crate::{Allocation, Handle};

/// The range that was freed last, if it lies between two live ranges, until the next change. It stays in the chain of
/// neighbours and is in no list of holes. A call that reserves exactly its length only marks it live again. In a full
/// segment of equal objects, an eviction is followed by exactly this call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spare {
    at: u32,
    pub(crate) len: u64,
}

impl RangeAllocator {
    /// Frees a range.
    ///
    /// # Panics
    /// If `handle` names no live range.
    pub fn free(&mut self, handle: Handle) {
        let at = self.expect_live(handle);
        self.settle();
        let Live { offset, prev, next } = *self.nodes.live(at);
        let len = self.nodes.start(next) - offset;
        self.used -= len;
        self.live -= 1;
        if prev.as_hole().is_none() && next.as_hole().is_none() {
            self.spare = Some(Spare { at, len });
        } else {
            self.release(Spare { at, len });
        }
    }

    pub(crate) fn is_spare(&self, at: u32) -> bool {
        self.spare.is_some_and(|spare| spare.at == at)
    }

    /// Reserves the spare range, if there is one of exactly this length.
    pub(crate) fn take_spare(&mut self, len: u64) -> Option<Allocation> {
        let Spare { at, .. } = self.spare.take_if(|spare| spare.len == len)?;
        self.used += len;
        self.live += 1;
        self.reindex(None, None);
        Some(Allocation { handle: Handle::new(at), offset: self.nodes.live(at).offset })
    }

    /// Turns the spare range, if there is one, into a hole.
    pub(crate) fn settle(&mut self) {
        if let Some(spare) = self.spare.take() {
            self.release(spare);
        }
    }

    /// Turns a range into a hole and joins it with neighbouring holes. The caller has already subtracted it from the
    /// count of live ranges.
    fn release(&mut self, Spare { at, len }: Spare) {
        let Live { offset, prev, next } = *self.nodes.live(at);
        let freed = Range { offset, len };
        self.nodes.vacate(at);
        match (prev.kind(), next.kind()) {
            (NodeKind::Live(before), NodeKind::Live(after)) => {
                self.insert_hole(freed, before, after);
            }
            (NodeKind::Live(before), NodeKind::Hole(after)) => {
                let len = freed.len + self.nodes.hole(after).range.len;
                self.resize_hole(after, Range { offset, len });
                self.nodes.live_mut(before).next = next;
                self.nodes.hole_mut(after).prev = before;
            }
            (NodeKind::Hole(before), NodeKind::Live(after)) => {
                let range = self.nodes.hole(before).range;
                self.resize_hole(before, Range { len: range.len + freed.len, ..range });
                self.nodes.hole_mut(before).next = after;
                self.nodes.live_mut(after).prev = prev;
            }
            (NodeKind::Hole(before), NodeKind::Hole(after)) => {
                let (range, removed) = (self.nodes.hole(before).range, *self.nodes.hole(after));
                self.remove_hole(after);
                let len = range.len + freed.len + removed.range.len;
                self.resize_hole(before, Range { len, ..range });
                self.nodes.hole_mut(before).next = removed.next;
                self.nodes.live_mut(removed.next).prev = prev;
            }
        }
    }
}
