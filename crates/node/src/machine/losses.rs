use std::collections::VecDeque;

use mooncake_types::{RangeDrop, limits};

/// Entries whose bytes are lost, which the master does not know yet. They are numbered in their order.
#[derive(Clone, Debug, Default)]
pub struct Losses {
    queue: VecDeque<(Box<str>, RangeDrop)>,
    /// The number of the first in the queue.
    first: u64,
}

impl Losses {
    /// Notes an entry of this key. Forgets the oldest if there are too many: the master goes on naming it, and readers
    /// do not find it.
    pub(super) fn note(&mut self, key: &str, range: RangeDrop) {
        if self.queue.len() == limits::MAX_UNREPORTED_LOSSES {
            self.forget_before(self.first + 1);
        }
        self.queue.push_back((key.into(), range));
    }

    /// The master knows all losses before this number.
    pub(super) fn forget_before(&mut self, number: u64) {
        while self.first < number && self.queue.pop_front().is_some() {
            self.first += 1;
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// At most `limit` keys and entries, the oldest first, and the number after the last of them.
    #[must_use]
    pub fn oldest(&self, limit: usize) -> (Vec<(Box<str>, RangeDrop)>, u64) {
        let some: Vec<_> = self.queue.iter().take(limit).cloned().collect();
        let next = self.first + some.len() as u64;
        (some, next)
    }
}

#[cfg(test)]
mod tests {
    use mooncake_types::{SegmentId, Version};

    use super::*;

    fn entry(offset: u64) -> RangeDrop {
        let version = Version::default();
        RangeDrop { segment: SegmentId(1), offset, version, grant: version }
    }

    #[test]
    fn what_came_after_a_report_is_reported_next() {
        let mut losses = Losses::default();
        (0..3).for_each(|at| losses.note("key", entry(at)));
        let (some, next) = losses.oldest(2);
        assert_eq!(some.iter().map(|(_, it)| it.offset).collect::<Vec<_>>(), [0, 1]);
        losses.note("key", entry(3));
        losses.forget_before(next);
        losses.forget_before(next);
        assert_eq!(losses.oldest(9).0.len(), 2);
        assert_eq!(losses.oldest(9).1, 4);
    }

    #[test]
    fn the_oldest_of_too_many_are_forgotten() {
        let mut losses = Losses::default();
        let most = limits::MAX_UNREPORTED_LOSSES as u64;
        (0..most + 2).for_each(|at| losses.note("key", entry(at)));
        let (some, next) = losses.oldest(1);
        assert_eq!((some[0].1.offset, next), (2, 3));
    }
}
