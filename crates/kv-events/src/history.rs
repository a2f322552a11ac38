//! The latest batches, kept for subscribers that are slow or missed some.

use std::collections::VecDeque;

use bytes::Bytes;

/// Batches, sorted by number. The numbers have gaps where events were dropped.
#[derive(Debug)]
pub(crate) struct History {
    batches: VecDeque<(u64, Bytes)>,
    bytes: usize,
    most_bytes: usize,
    /// The number of the last batch; before the first, the number below its own.
    last: u64,
}

impl History {
    /// An empty history. The first batch gets the number after `last`.
    pub(crate) fn new(most_bytes: usize, last: u64) -> History {
        History { batches: VecDeque::new(), bytes: 0, most_bytes, last }
    }

    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// Adds a batch after `lost` numbers that are left out, and returns its number. Drops the oldest batches if there
    /// are too many bytes.
    pub(crate) fn add(&mut self, lost: u64, batch: Bytes) -> u64 {
        self.last += lost + 1;
        self.bytes += batch.len();
        self.batches.push_back((self.last, batch));
        while self.bytes > self.most_bytes && self.batches.len() > 1 {
            self.bytes -= self.batches.pop_front().map_or(0, |(_, batch)| batch.len());
        }
        self.last
    }

    /// The oldest batch in the history with at least this number.
    pub(crate) fn from(&self, number: u64) -> Option<(u64, Bytes)> {
        let at = self.batches.partition_point(|&(known, _)| known < number);
        self.batches.get(at).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_batches_go_first_and_gaps_stay() {
        let mut history = History::new(10, 0);
        assert_eq!((history.last(), history.from(0)), (0, None));
        let batch = |byte: u8| Bytes::from(vec![byte; 4]);
        assert_eq!(history.add(0, batch(1)), 1);
        assert_eq!(history.add(3, batch(2)), 5);
        assert_eq!(history.from(0), Some((1, batch(1))));
        assert_eq!(history.from(2), Some((5, batch(2))));
        assert_eq!(history.add(0, batch(3)), 6);
        assert_eq!(history.from(0), Some((5, batch(2))), "the first has made room");
        assert_eq!(history.from(7), None);
        // A batch longer than the limit is kept alone.
        let long = Bytes::from(vec![9; 50]);
        assert_eq!(history.add(0, long.clone()), 7);
        assert_eq!(history.from(0), Some((7, long)));
    }
}
