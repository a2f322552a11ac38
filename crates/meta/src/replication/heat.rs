//! Read counts of the most read keys, within a window.
//!
//! The hash of a key selects a small set, in which the key gets one place. Its count starts again with every window.
//! In a full set a new key replaces the key with the fewest reads. So:
//!
//! - a count is exact as long as the key keeps its place;
//! - a rarely read key replaces no frequently read key;
//! - the memory does not depend on the number of keys.

use mooncake_types::Tick;

const SETS: usize = 1 << 12;
const PLACES: usize = 8;

/// The count of one key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyHeat {
    /// Half of the hash of the key, never zero. Zero marks a free place.
    tag: u32,
    /// Reads since the window began.
    pub(crate) reads: u32,
    since: Tick,
    /// No copy of the key is begun before this moment.
    pub(crate) quiet_until: Tick,
}

const NOBODY: KeyHeat = KeyHeat { tag: 0, reads: 0, since: Tick::ZERO, quiet_until: Tick::ZERO };

/// The read counts: see the [module](self).
#[derive(Debug)]
pub(crate) struct Heat {
    window_ms: u64,
    sets: Vec<[KeyHeat; PLACES]>,
}

impl Heat {
    pub(crate) fn new(window_ms: u64) -> Self {
        Self { window_ms, sets: vec![[NOBODY; PLACES]; SETS] }
    }

    /// Adds reads of the key with this hash.
    pub(crate) fn note(&mut self, hash: u64, reads: u32, now: Tick) -> &mut KeyHeat {
        let window_ms = self.window_ms;
        let is_over = |spot: &KeyHeat| now.since_ms(spot.since) >= window_ms;
        let (set, tag) = place_of(hash);
        let set = &mut self.sets[set];
        let known = set.iter().position(|spot| spot.tag == tag);
        let place = known.unwrap_or_else(|| {
            let worth = |spot: &KeyHeat| match is_over(spot) {
                true => (spot.quiet_until > now, 0),
                false => (true, spot.reads),
            };
            let least = (0..PLACES).min_by_key(|&place| worth(&set[place]));
            least.expect("a set has places")
        });
        let spot = &mut set[place];
        if known.is_none() {
            *spot = KeyHeat { tag, since: now, ..NOBODY };
        } else if is_over(spot) {
            (spot.reads, spot.since) = (0, now);
        }
        spot.reads = spot.reads.saturating_add(reads);
        spot
    }

    /// No copy of this key is begun before `until`. Has no effect if the key has no place.
    pub(crate) fn keep_quiet(&mut self, hash: u64, until: Tick) {
        let (set, tag) = place_of(hash);
        if let Some(spot) = self.sets[set].iter_mut().find(|spot| spot.tag == tag) {
            spot.quiet_until = spot.quiet_until.max(until);
        }
    }
}

fn place_of(hash: u64) -> (usize, u32) {
    (hash as usize % SETS, (hash >> 32) as u32 | 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(number: u64) -> u64 {
        number.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)
    }

    #[test]
    fn reads_are_counted_for_the_length_of_a_window() {
        let mut heat = Heat::new(10_000);
        for (now, reads, expected) in
            [(0, 1, 1), (5_000, 2, 3), (9_999, 1, 4), (10_000, 1, 1), (30_000, 7, 7)]
        {
            assert_eq!(heat.note(hash(1), reads, Tick(now)).reads, expected, "at {now}");
        }
        assert_eq!(heat.note(hash(2), 1, Tick(30_000)).reads, 1, "another key");
        heat.note(hash(1), u32::MAX, Tick(30_001));
        assert_eq!(heat.note(hash(1), u32::MAX, Tick(30_002)).reads, u32::MAX);
    }

    #[test]
    fn keys_that_are_read_once_push_out_none_that_is_read_often() {
        let mut heat = Heat::new(10_000);
        for round in 0..8 {
            for key in 0..100 {
                let reads = heat.note(hash(key), 2, Tick(round)).reads;
                assert_eq!(reads, 2 * (round as u32 + 1), "{key}");
            }
            for key in 0..200_000 {
                heat.note(hash(1_000_000 + round * 200_000 + key), 1, Tick(round));
            }
        }
    }

    #[test]
    fn what_is_to_be_left_alone_is_remembered_while_there_is_room() {
        let mut heat = Heat::new(10_000);
        heat.note(hash(1), 1, Tick(0));
        heat.keep_quiet(hash(1), Tick(60_000));
        heat.keep_quiet(hash(2), Tick(60_000));
        assert_eq!(heat.note(hash(1), 1, Tick(40_000)).quiet_until, Tick(60_000));
        assert_eq!(heat.note(hash(2), 1, Tick(40_000)).quiet_until, Tick(0), "it was unknown");
    }
}
