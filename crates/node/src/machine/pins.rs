use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, Instant};

use mooncake_types::ErrorCode;

use super::Effect;

/// Readers must drop a pin within this time after they are asked to. Then writers stop waiting for it, and get an
/// answer before they take a silent node for a dead one.
const PATIENCE: Duration = Duration::from_millis(400);

/// At most one part in this many of a segment is pinned at a time. Overlapping pins count separately.
const SHARE: u64 = 4;

/// Ranges of one segment that stay unchanged while readers use them in place.
#[derive(Debug)]
pub(super) struct Pins<H> {
    /// By the start of the range, and a serial number.
    pinned: BTreeMap<(u64, u64), PinnedRange<H>>,
    next: u64,
    bytes: u64,
    /// Length of the longest pin since there was last none, in bytes.
    longest: u64,
    is_closed: bool,
}

#[derive(Debug)]
struct PinnedRange<H> {
    end: u64,
    reader: H,
    /// When its reader was first asked to drop it.
    asked_at: Option<Instant>,
}

/// Identifies a pin: the start of its range, and a serial number.
pub type PinKey = (u64, u64);

impl<H> Default for Pins<H> {
    fn default() -> Self {
        Self { pinned: BTreeMap::new(), next: 0, bytes: 0, longest: 0, is_closed: false }
    }
}

impl<H> Pins<H> {
    /// Pins a range of a segment that is `segment_len` long.
    pub(super) fn add(
        &mut self,
        range: &Range<u64>,
        segment_len: u64,
        reader: H,
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
        self.pinned.insert(key, PinnedRange { end: range.end, reader, asked_at: None });
        Ok(key)
    }

    pub(super) fn remove(&mut self, key: PinKey) {
        if let Some(pinned) = self.pinned.remove(&key) {
            self.bytes -= pinned.end - key.0;
        }
        if self.pinned.is_empty() {
            self.longest = 0;
        }
    }

    /// Asks the readers of all pins that overlap a range to drop them.
    pub(super) fn ask(
        &mut self,
        range: &Range<u64>,
        now: Instant,
        effects: &mut impl FnMut(Effect<'_, H>),
    ) {
        let from = range.start.saturating_sub(self.longest);
        for (_, pinned) in self.pinned.range_mut((from, 0)..(range.end, 0)) {
            if pinned.end > range.start {
                pinned.asked_at.get_or_insert(now);
                effects(Effect::Interrupt(&pinned.reader));
            }
        }
    }

    /// How long to wait for the pins that overlap a range; `None` if there are none.
    pub(super) fn patience(&self, range: &Range<u64>, now: Instant) -> Option<Duration> {
        let from = range.start.saturating_sub(self.longest);
        let overlapping = self.pinned.range((from, 0)..(range.end, 0));
        let overlapping = overlapping.filter(|(_, pinned)| pinned.end > range.start);
        let left = |asked_at| PATIENCE.saturating_sub(now.saturating_duration_since(asked_at));
        overlapping.map(|(_, pinned)| pinned.asked_at.map_or(PATIENCE, left)).min()
    }

    /// Asks for all pins, and refuses new ones.
    pub(super) fn close(&mut self, now: Instant, effects: &mut impl FnMut(Effect<'_, H>)) {
        self.is_closed = true;
        self.ask(&(0..u64::MAX), now, effects);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pins of these ranges in a segment of 1000 bytes, each by the reader of its number.
    fn pins(ranges: &[Range<u64>]) -> (Pins<usize>, Vec<PinKey>) {
        let mut pins = Pins::default();
        let mut add = |(reader, range)| pins.add(range, 1000, reader).expect("there is room");
        let keys = ranges.iter().enumerate().map(&mut add).collect();
        (pins, keys)
    }

    /// The readers that `ask` interrupts.
    fn asked(ask: impl FnOnce(&mut dyn FnMut(Effect<'_, usize>))) -> Vec<usize> {
        let mut asked = Vec::new();
        ask(&mut |effect| match effect {
            Effect::Interrupt(reader) => asked.push(*reader),
            other => panic!("{other:?}"),
        });
        asked
    }

    #[test]
    fn only_who_is_in_the_way_is_asked() {
        let (now, all) = (Instant::now(), [10..20, 20..30, 12..13, 25..100, 200..201]);
        for (range, expected) in [
            (0..10, &[][..]),
            (0..11, &[0]),
            (13..20, &[0]),
            (12..21, &[0, 2, 1]),
            (99..200, &[3]),
            (30..31, &[3]),
            (100..200, &[]),
            (0..1000, &[0, 2, 1, 3, 4]),
        ] {
            let (mut pins, _) = pins(&all);
            assert_eq!(pins.patience(&range, now).is_some(), !expected.is_empty(), "{range:?}");
            assert_eq!(asked(|mut effects| pins.ask(&range, now, &mut effects)), expected);
        }
    }

    #[test]
    fn a_range_is_free_when_all_its_pins_are_dropped() {
        let (now, (mut pins, keys)) = (Instant::now(), pins(&[10..20, 10..20]));
        assert_ne!(keys[0], keys[1]);
        pins.remove(keys[0]);
        pins.remove(keys[0]);
        assert!(pins.patience(&(0..100), now).is_some());
        pins.remove(keys[1]);
        assert_eq!(pins.patience(&(0..100), now), None);
        assert_eq!((pins.bytes, pins.longest), (0, 0));
    }

    #[test]
    fn no_more_than_a_quarter_is_pinned() {
        let (mut pins, keys) = pins(&[0..100, 0..100]);
        let full = Err(ErrorCode::NoAvailableHandle);
        assert_eq!([pins.add(&(0..51), 1000, 2), pins.add(&(0..u64::MAX), 1000, 2)], [full, full]);
        assert!(pins.add(&(0..50), 1000, 2).is_ok());
        assert_eq!(pins.add(&(0..1), 1000, 2), full);
        pins.remove(keys[0]);
        assert!(pins.add(&(0..100), 1000, 2).is_ok());
    }

    #[test]
    fn who_does_not_let_go_is_not_waited_for_again() {
        let (now, (mut pins, _)) = (Instant::now(), pins(std::slice::from_ref(&(10..20))));
        assert_eq!(pins.patience(&(0..100), now), Some(PATIENCE), "nobody has asked");
        pins.ask(&(0..100), now, &mut |_| {});
        let later = now + PATIENCE;
        assert_eq!(
            pins.patience(&(0..100), later - Duration::from_millis(1)).map(|left| left.as_millis()),
            Some(1)
        );
        assert_eq!(pins.patience(&(0..100), later), Some(Duration::ZERO));
        pins.ask(&(0..100), later, &mut |_| {});
        assert_eq!(pins.patience(&(0..100), later), Some(Duration::ZERO), "it is no news");
    }

    #[test]
    fn a_segment_that_goes_asks_for_all_and_takes_no_more() {
        let (mut pins, _) = pins(&[0..10, 500..501]);
        assert_eq!(asked(|mut effects| pins.close(Instant::now(), &mut effects)), [0, 1]);
        assert_eq!(pins.add(&(0..1), 1000, 2), Err(ErrorCode::NoAvailableHandle));
    }
}
