//! Doubly linked queues threaded through the range records: joining and leaving cost the same whatever the length.

use super::record::Range;
use crate::slab::{NONE, Slab};

/// Where a queue starts and ends. The links are in the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Queue {
    pub(crate) head: u32,
    pub(crate) tail: u32,
    pub(crate) len: u32,
}

impl Default for Queue {
    fn default() -> Self {
        Self { head: NONE, tail: NONE, len: 0 }
    }
}

impl Queue {
    pub(crate) fn push_back(&mut self, ranges: &mut Slab<Range>, id: u32) {
        let range = &mut ranges[id];
        assert!(range.prev == NONE && range.next == NONE, "range {id} is in a queue already");
        range.prev = self.tail;
        match self.tail {
            NONE => self.head = id,
            tail => ranges[tail].next = id,
        }
        self.tail = id;
        self.len += 1;
    }

    pub(crate) fn remove(&mut self, ranges: &mut Slab<Range>, id: u32) {
        let Range { prev, next, .. } = ranges[id];
        match prev {
            NONE => {
                assert_eq!(self.head, id, "range {id} leaves a queue that it is not in");
                self.head = next;
            }
            prev => ranges[prev].next = next,
        }
        match next {
            NONE => self.tail = prev,
            next => ranges[next].prev = prev,
        }
        let range = &mut ranges[id];
        (range.prev, range.next) = (NONE, NONE);
        self.len -= 1;
    }

    pub(crate) fn iter<'a>(&self, ranges: &'a Slab<Range>) -> impl Iterator<Item = u32> + 'a {
        let mut at = self.head;
        std::iter::from_fn(move || {
            let id = (at != NONE).then_some(at)?;
            at = ranges[id].next;
            Some(id)
        })
    }
}
