//! How often ranges were read lately, by all processes that share the cache: a count-min sketch whose counters are
//! halved from time to time.

use std::sync::atomic::Ordering;

use mooncake_memory::Region;

use super::layout::{Layout, header};

/// Counters for each range.
const DEPTH: u64 = 4;

/// The counters are halved after this many reads for each of them.
const READS_OF_COUNTER: u64 = 4;

/// All counters of a word, halved, without the bits that come from their neighbours.
const HALVES: u64 = 0x7f7f_7f7f_7f7f_7f7f;

/// See the module. Increments of two processes at the same time may be lost, which is no harm.
pub(super) struct Sketch<'m> {
    pub(super) region: &'m Region,
    pub(super) layout: Layout,
}

impl Sketch<'_> {
    /// Counts one read, and returns how many there were, or more.
    pub(super) fn count(&self, hash: u64) -> u8 {
        self.region.word(header::COUNTED).fetch_add(1, Ordering::Relaxed);
        self.places(hash).map(|place| self.increment(place)).min().unwrap_or(0)
    }

    /// How many reads there were, or more.
    pub(super) fn estimate(&self, hash: u64) -> u8 {
        let counter = |(word, shift): (usize, u32)| {
            (self.region.word(word).load(Ordering::Relaxed) >> shift) as u8
        };
        self.places(hash).map(counter).min().unwrap_or(0)
    }

    /// Halves all counters if it is time. One process does it at a time.
    pub(super) fn age(&self) {
        let counted = self.region.word(header::COUNTED);
        if counted.load(Ordering::Relaxed) < self.layout.counters() * READS_OF_COUNTER {
            return;
        }
        for index in 0..self.layout.sketch_words {
            let word = self.region.word(self.layout.sketch_word(index));
            word.store(word.load(Ordering::Relaxed) >> 1 & HALVES, Ordering::Relaxed);
        }
        counted.store(0, Ordering::Relaxed);
    }

    fn places(&self, hash: u64) -> impl Iterator<Item = (usize, u32)> {
        let (first, step) = (hash, hash.rotate_left(32) | 1);
        let (counters, layout) = (self.layout.counters(), self.layout);
        (0..DEPTH).map(move |row| {
            let counter = first.wrapping_add(step.wrapping_mul(row)) % counters;
            (layout.sketch_word(counter / 8), (counter % 8 * 8) as u32)
        })
    }

    fn increment(&self, (word, shift): (usize, u32)) -> u8 {
        let word = self.region.word(word);
        let count = (word.load(Ordering::Relaxed) >> shift) as u8;
        if count < u8::MAX {
            word.fetch_add(1 << shift, Ordering::Relaxed);
        }
        count.saturating_add(1)
    }
}

#[cfg(test)]
mod tests {
    use super::super::index::mix;
    use super::super::layout::LEAST_BYTES;
    use super::*;

    #[test]
    fn counts_are_never_too_low_and_seldom_too_high() {
        let region = Region::anonymous(LEAST_BYTES).unwrap();
        let sketch = Sketch { region: &region, layout: Layout::of(LEAST_BYTES).unwrap() };
        let times = |number: u64| number % 7 + 1;
        for number in 0..200 {
            for _ in 0..times(number) {
                sketch.count(mix(number));
            }
        }
        let exact = (0..200).filter(|&number| {
            let estimate = u64::from(sketch.estimate(mix(number)));
            assert!(estimate >= times(number), "{number}");
            estimate == times(number)
        });
        assert!(exact.count() > 190);
    }

    #[test]
    fn a_counter_stays_at_its_end_and_is_halved() {
        let region = Region::anonymous(LEAST_BYTES).unwrap();
        let sketch = Sketch { region: &region, layout: Layout::of(LEAST_BYTES).unwrap() };
        for _ in 0..1_000 {
            sketch.count(mix(1));
        }
        assert_eq!((sketch.estimate(mix(1)), sketch.estimate(mix(2))), (255, 0));
        sketch.age();
        assert_eq!(sketch.estimate(mix(1)), 255, "it is not time yet");
        for number in 0..sketch.layout.counters() * READS_OF_COUNTER {
            sketch.count(mix(number % 16));
        }
        sketch.age();
        assert_eq!(sketch.estimate(mix(1)), 127);
    }
}
