use std::collections::BTreeMap;

/// Which bytes of an object are in place, as intervals that do not touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Coverage {
    /// The end of each interval, by its start.
    intervals: BTreeMap<u64, u64>,
}

impl Coverage {
    /// Adds the `len` bytes from `from` on.
    pub(super) fn add(&mut self, from: u64, len: u64) {
        let (mut from, mut end) = (from, from + len);
        while let Some((&start, &stop)) = self.intervals.range(..=end).next_back() {
            if stop < from {
                break;
            }
            self.intervals.remove(&start);
            (from, end) = (from.min(start), end.max(stop));
        }
        if from < end {
            self.intervals.insert(from, end);
        }
    }

    /// How many intervals there are.
    pub(super) fn pieces(&self) -> usize {
        self.intervals.len()
    }

    /// Whether the `len` bytes from `from` on are all there.
    pub(super) fn contains(&self, from: u64, len: u64) -> bool {
        let before = self.intervals.range(..=from).next_back();
        before.is_some_and(|(_, &end)| end >= from + len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mooncake_types::Chance;

    #[test]
    fn intervals_that_touch_are_one() {
        for (added, expected) in [
            (vec![(0, 4)], vec![(0, 4)]),
            (vec![(0, 4), (4, 2)], vec![(0, 6)]),
            (vec![(4, 2), (0, 4)], vec![(0, 6)]),
            (vec![(0, 2), (4, 2), (8, 2)], vec![(0, 2), (4, 6), (8, 10)]),
            (vec![(0, 2), (4, 2), (8, 2), (1, 8)], vec![(0, 10)]),
            (vec![(2, 2), (3, 0), (9, 0)], vec![(2, 4)]),
            (vec![(2, 6), (3, 1)], vec![(2, 8)]),
        ] {
            let mut coverage = Coverage::default();
            for &(from, len) in &added {
                coverage.add(from, len);
            }
            let found: Vec<_> = coverage.intervals.into_iter().collect();
            assert_eq!(found, expected, "{added:?}");
        }
    }

    #[test]
    fn random_parts_cover_what_a_set_of_bytes_does() {
        for start in 0..200 {
            let mut chance = Chance::new(start);
            let (mut coverage, mut bytes) = (Coverage::default(), [false; 64]);
            while !coverage.contains(0, 64) {
                let from = chance.below(64);
                let len = chance.below(65 - from).min(12);
                coverage.add(from, len);
                bytes[from as usize..(from + len) as usize].fill(true);
                let starts = (0..64).filter(|&at| bytes[at] && (at == 0 || !bytes[at - 1]));
                assert_eq!(coverage.pieces(), starts.count(), "start {start}");
                let (from, len) = (chance.below(64), 1 + chance.below(8));
                let end = (from + len).min(64);
                let there = bytes[from as usize..end as usize].iter().all(|&there| there);
                assert_eq!(coverage.contains(from, end - from), there);
            }
        }
    }
}
