use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mooncake_transfer::Interrupt;
use mooncake_types::ErrorCode;

/// A pin is dropped within this time of being asked for, or those who want the range do not wait for it any more. They hear
/// so before they take a node that says nothing for one that is gone.
const PATIENCE: Duration = Duration::from_millis(400);

/// One part in this many of a segment may be pinned at a time, each pin counted by itself.
const SHARE: u64 = 4;

/// Ranges of one segment that stay as they are because somebody looks at them.
#[derive(Default)]
pub(crate) struct Pins {
    /// By the start of the range, and a number.
    held: BTreeMap<(u64, u64), PinnedRange>,
    next: u64,
    bytes: u64,
    /// The longest range that was pinned since there was none, in bytes.
    longest: u64,
    is_closed: bool,
}

struct PinnedRange {
    end: u64,
    interrupt: Arc<dyn Interrupt>,
    /// When it was first asked for.
    asked_at: Option<Instant>,
}

/// Names a pin.
pub(crate) type PinKey = (u64, u64);

impl Pins {
    /// Takes a range of a segment that is `segment_len` long.
    pub(crate) fn add(
        &mut self,
        range: &Range<u64>,
        segment_len: u64,
        interrupt: Arc<dyn Interrupt>,
    ) -> Result<PinKey, ErrorCode> {
        let len = range.end - range.start;
        let has_room = self.bytes.saturating_add(len) <= segment_len / SHARE;
        if self.is_closed || !has_room {
            return Err(ErrorCode::NoAvailableHandle);
        }
        let key = (range.start, self.next);
        self.next += 1;
        self.bytes += len;
        self.longest = self.longest.max(len);
        self.held.insert(key, PinnedRange { end: range.end, interrupt, asked_at: None });
        Ok(key)
    }

    pub(crate) fn remove(&mut self, key: PinKey) {
        if let Some(held) = self.held.remove(&key) {
            self.bytes -= held.end - key.0;
        }
        if self.held.is_empty() {
            self.longest = 0;
        }
    }

    /// Asks for all pins that overlap a range.
    pub(crate) fn ask(&mut self, range: &Range<u64>) {
        if self.held.is_empty() {
            return;
        }
        let now = Instant::now();
        let from = range.start.saturating_sub(self.longest);
        for (_, held) in self.held.range_mut((from, 0)..(range.end, 0)) {
            if held.end > range.start {
                held.asked_at.get_or_insert(now);
                held.interrupt.interrupt();
            }
        }
    }

    /// How long to wait for a range that was asked for; `None` if nothing of it is pinned.
    pub(crate) fn patience(&self, range: &Range<u64>) -> Option<Duration> {
        let from = range.start.saturating_sub(self.longest);
        let overlapping = self.held.range((from, 0)..(range.end, 0));
        let overlapping = overlapping.filter(|(_, held)| held.end > range.start);
        let left = |asked_at: Instant| PATIENCE.saturating_sub(asked_at.elapsed());
        overlapping.map(|(_, held)| held.asked_at.map_or(PATIENCE, left)).min()
    }

    /// Asks for all, and takes no more.
    pub(crate) fn close(&mut self) {
        self.is_closed = true;
        self.ask(&(0..u64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Interrupt for Count {
        fn interrupt(&self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Pins of these ranges in a segment of 1000 bytes.
    fn pins(ranges: &[Range<u64>]) -> (Pins, Vec<PinKey>, Vec<Arc<Count>>) {
        let mut pins = Pins::default();
        let counts: Vec<Arc<Count>> = ranges.iter().map(|_| Arc::default()).collect();
        let add = |(range, count): (&Range<u64>, &Arc<Count>)| {
            pins.add(range, 1000, Arc::clone(count) as _).expect("there is room")
        };
        let keys = ranges.iter().zip(&counts).map(add).collect();
        (pins, keys, counts)
    }

    fn asked(counts: &[Arc<Count>]) -> Vec<usize> {
        counts.iter().map(|count| count.0.load(Ordering::SeqCst)).collect()
    }

    #[test]
    fn only_who_is_in_the_way_is_asked() {
        let all = [10..20, 20..30, 12..13, 25..100, 200..201];
        for (range, expected) in [
            (0..10, [0, 0, 0, 0, 0]),
            (0..11, [1, 0, 0, 0, 0]),
            (13..20, [1, 0, 0, 0, 0]),
            (12..21, [1, 1, 1, 0, 0]),
            (99..200, [0, 0, 0, 1, 0]),
            (30..31, [0, 0, 0, 1, 0]),
            (100..200, [0, 0, 0, 0, 0]),
            (0..1000, [1, 1, 1, 1, 1]),
        ] {
            let (mut pins, _, counts) = pins(&all);
            assert_eq!(pins.patience(&range).is_some(), expected.contains(&1), "{range:?}");
            pins.ask(&range);
            assert_eq!(asked(&counts), expected, "{range:?}");
        }
    }

    #[test]
    fn a_range_is_free_when_all_its_pins_are_dropped() {
        let (mut pins, keys, _) = pins(&[10..20, 10..20]);
        assert_ne!(keys[0], keys[1]);
        pins.remove(keys[0]);
        pins.remove(keys[0]);
        assert!(pins.patience(&(0..100)).is_some());
        pins.remove(keys[1]);
        assert_eq!(pins.patience(&(0..100)), None);
        assert_eq!((pins.bytes, pins.longest), (0, 0));
    }

    #[test]
    fn no_more_than_a_quarter_is_pinned() {
        let (mut pins, keys, _) = pins(&[0..100, 0..100]);
        let add = |pins: &mut Pins, len| pins.add(&(0..len), 1000, Arc::<Count>::default() as _);
        let full = Err(ErrorCode::NoAvailableHandle);
        assert_eq!([add(&mut pins, 51), add(&mut pins, u64::MAX)], [full, full]);
        assert!(add(&mut pins, 50).is_ok());
        assert_eq!(add(&mut pins, 1), full);
        pins.remove(keys[0]);
        assert!(add(&mut pins, 100).is_ok());
    }

    #[test]
    fn who_does_not_let_go_is_not_waited_for_again() {
        let (mut pins, _, _) = pins(std::slice::from_ref(&(10..20)));
        assert_eq!(pins.patience(&(0..100)), Some(PATIENCE), "nobody has asked");
        pins.ask(&(0..100));
        let held = pins.held.values_mut().next().expect("it is held");
        held.asked_at = held.asked_at.and_then(|at| at.checked_sub(PATIENCE));
        assert_eq!(pins.patience(&(0..100)), Some(Duration::ZERO));
        pins.ask(&(0..100));
        assert_eq!(pins.patience(&(0..100)), Some(Duration::ZERO), "it is no news");
    }

    #[test]
    fn a_segment_that_goes_asks_for_all_and_takes_no_more() {
        let (mut pins, _, counts) = pins(&[0..10, 500..501]);
        pins.close();
        assert_eq!(asked(&counts), [1, 1]);
        let refused = pins.add(&(0..1), 1000, Arc::<Count>::default() as _);
        assert_eq!(refused, Err(ErrorCode::NoAvailableHandle));
    }
}
