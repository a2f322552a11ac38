//! Ramp-up: in a full pool, a segment that begins to take puts does not get all of them, though only it has room.
//!
//! For each replica, placement begins its search for room at another place. A new segment takes a replica only if the
//! search began within its *reach*, a number of places before the segment. Other replicas evict elsewhere. So a new
//! segment gets four times its share of the puts at first, twice as many every ten seconds, and all in the end. If
//! many segments are new, the puts are spread over them anyway, and no segment is held back.

use std::collections::BTreeMap;

use mooncake_types::Tick;

/// How many times its share of the puts a new segment takes at first.
const FIRST_REACH: usize = 4;
/// Time in which a segment comes to take twice as many puts.
const DOUBLES_EVERY_MS: u64 = 10_000;
/// How often a segment doubles its share at most.
const MOST_DOUBLED: u64 = 32;

/// The ramp-up of all segments.
#[derive(Debug, Default)]
pub(super) struct Ramp {
    /// The time of the pool's clock.
    pub(super) now: Tick,
    /// From this time on no segment is held back.
    ends: Tick,
    /// By stretch of [`DOUBLES_EVERY_MS`], how many segments that take puts began then. Only the last stretches are
    /// kept.
    begun: BTreeMap<u64, usize>,
}

/// How many times its share of the puts a segment takes that began to take puts `age_ms` ago.
fn reach(age_ms: u64) -> usize {
    let doubled = (age_ms / DOUBLES_EVERY_MS).min(MOST_DOUBLED);
    FIRST_REACH << doubled
}

/// How often a segment doubles its share until it may take all puts of `count` segments.
fn doublings(count: usize) -> u64 {
    (0..MOST_DOUBLED).find(|&times| reach(times * DOUBLES_EVERY_MS) >= count).unwrap_or(0)
}

const fn stretch(at: Tick) -> u64 {
    at.0 / DOUBLES_EVERY_MS
}

impl Ramp {
    /// A segment begins to take puts: `count` segments take puts now.
    pub(super) fn begin(&mut self, count: usize) {
        let now = stretch(self.now);
        *self.begun.entry(now).or_default() += 1;
        while let Some(oldest) = self.begun.first_entry()
            && *oldest.key() + MOST_DOUBLED < now
        {
            oldest.remove();
        }
        let doublings = doublings(count);
        let first = (now + 1).saturating_sub(doublings);
        let new: usize = self.begun.range(first..).map(|(_, begun)| begun).sum();
        let is_spread = new * FIRST_REACH >= count;
        let lasts_ms = if is_spread { 0 } else { doublings * DOUBLES_EVERY_MS };
        self.ends = self.now.after_ms(lasts_ms);
    }

    /// Whether any segment may be held back.
    pub(super) fn is_on(&self) -> bool {
        self.now < self.ends
    }

    /// How many times its share of the puts a segment takes that has taken puts since `granted_since`.
    pub(super) fn reach_of(&self, granted_since: Tick) -> usize {
        reach(self.now.since_ms(granted_since))
    }

    /// A segment that has taken puts since `granted_since` stops taking them.
    pub(super) fn end(&mut self, granted_since: Tick) {
        if let Some(begun) = self.begun.get_mut(&stretch(granted_since)) {
            *begun -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_ramp_up_until_they_reach_all_unless_many_are_new() {
        let mut ramp = Ramp { now: Tick(1_000_000), ..Ramp::default() };
        let begin = |ramp: &mut Ramp, count| {
            ramp.begin(count);
            ramp.ends.since_ms(ramp.now)
        };
        for count in 1..=40 {
            assert_eq!(begin(&mut ramp, count), 0, "all are new");
        }
        let (old, new) = (ramp.now, ramp.now.after_ms(50_000));
        ramp.now = new;
        // Four times its share, then 8, 16, 32 and 64 times.
        for count in 41..=53 {
            assert_eq!(begin(&mut ramp, count), 40_000, "fewer than a quarter are new");
        }
        for _ in 0..5 {
            ramp.end(new);
        }
        assert_eq!(begin(&mut ramp, 49), 40_000);
        for _ in 0..14 {
            ramp.end(old);
        }
        assert_eq!(begin(&mut ramp, 36), 0, "10 of them are new");
        ramp.now = ramp.now.after_ms(3_600_000);
        assert_eq!(begin(&mut ramp, 140), 60_000);
        assert_eq!(ramp.begun.len(), 1, "what is long ago is forgotten");
        ramp.end(old);
    }
}
