//! Doubly linked queues. The links are fields of the range records, so joining and leaving cost the same whatever the
//! length.

use super::record::Range;
use super::records::Records;
use crate::slab::NONE;

/// The two ends of a queue. The records hold the links between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Queue {
    head: u32,
    tail: u32,
    len: u32,
}

impl Default for Queue {
    fn default() -> Self {
        Self { head: NONE, tail: NONE, len: 0 }
    }
}

impl Queue {
    /// Its first range, or [`NONE`].
    pub(crate) fn head(&self) -> u32 {
        self.head
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    pub(crate) fn push_back(&mut self, ranges: &mut Records<Range>, id: u32) {
        let range = ranges.at_mut(id);
        assert!(range.prev == NONE && range.next == NONE, "range {id} is in a queue already");
        range.prev = self.tail;
        match self.tail {
            NONE => self.head = id,
            tail => ranges.at_mut(tail).next = id,
        }
        self.tail = id;
        self.len += 1;
    }

    pub(crate) fn remove(&mut self, ranges: &mut Records<Range>, id: u32) {
        let range = ranges.at_mut(id);
        let (prev, next) = (range.prev, range.next);
        (range.prev, range.next) = (NONE, NONE);
        match prev {
            NONE => {
                assert_eq!(self.head, id, "range {id} leaves a queue that it is not in");
                self.head = next;
            }
            prev => ranges.at_mut(prev).next = next,
        }
        match next {
            NONE => self.tail = prev,
            next => ranges.at_mut(next).prev = prev,
        }
        self.len -= 1;
    }

    pub(crate) fn iter<'a>(&self, ranges: &'a Records<Range>) -> impl Iterator<Item = u32> + 'a {
        let mut at = self.head;
        std::iter::from_fn(move || {
            let id = (at != NONE).then_some(at)?;
            at = ranges[id].next;
            Some(id)
        })
    }
}
