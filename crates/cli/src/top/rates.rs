//! What happened in the pool, per second: now, and over the last hour.

use super::told::Told;

/// Rates of now are taken over at least this time.
const LEAST_MS: u64 = 8_000;
/// The longest time between two samples that are compared: a master that did not lead meanwhile has none.
const MOST_MS: u64 = 40_000;

/// The ways that bytes take, by the names of their counters.
pub(super) const WAYS: [(&str, &str); 4] = [
    ("own_bytes", "own process"),
    ("host_bytes", "same host"),
    ("fabric_bytes", "fabric"),
    ("tcp_bytes", "TCP"),
];
/// The tiers that bytes lie in.
pub(super) const TIERS: [(&str, &str); 4] = [
    ("memory_read", "memory"),
    ("disk_read", "disks"),
    ("shared_disk_read", "shared disks"),
    ("object_store_read", "object stores"),
];

/// The growth of counters between two samples of one leadership.
#[derive(Clone, Copy, Debug)]
pub(super) struct Growth<'a> {
    told: &'a Told,
    from: &'a [u64],
    to: &'a [u64],
}

impl<'a> Growth<'a> {
    /// From a sample that is some seconds old to now; `None` if this leader has none yet.
    pub(super) fn of_now(told: &'a Told) -> Option<Self> {
        let (to, older) = told.samples.split_last()?;
        let at_ms = |sample: &[u64]| told.value(sample, "at_ms");
        let from = older.iter().rev().find(|it| at_ms(it) + LEAST_MS <= at_ms(to))?;
        Self::between(told, from, to)
    }

    /// From each sample of the last hour to the next.
    pub(super) fn of_hour(told: &'a Told) -> impl Iterator<Item = Option<Self>> {
        told.samples.windows(2).map(|pair| Self::between(told, &pair[0], &pair[1]))
    }

    fn between(told: &'a Told, from: &'a [u64], to: &'a [u64]) -> Option<Self> {
        let growth = Self { told, from, to };
        let is_one_term = told.value(from, "epoch") == told.value(to, "epoch");
        let ms = growth.of("at_ms");
        (is_one_term && ms > 0 && ms <= MOST_MS).then_some(growth)
    }

    pub(super) fn of(&self, field: &str) -> u64 {
        self.told.value(self.to, field).saturating_sub(self.told.value(self.from, field))
    }

    pub(super) fn per_second(&self, field: &str) -> f64 {
        self.of(field) as f64 * 1_000.0 / self.of("at_ms") as f64
    }

    /// Bytes a second that clients read.
    pub(super) fn read(&self) -> f64 {
        WAYS.iter().map(|(field, _)| self.per_second(field)).sum()
    }

    /// The share of hits; absent if nothing was asked for.
    pub(super) fn hit_share(&self) -> Option<f64> {
        let (hits, misses) = (self.of("hits"), self.of("misses"));
        (hits + misses > 0).then(|| hits as f64 / (hits + misses) as f64)
    }

    /// The shares of some counters, the largest first, without those below half a percent.
    pub(super) fn shares(&self, of: &[(&str, &'static str)]) -> Vec<(&'static str, f64)> {
        let all: u64 = of.iter().map(|(field, _)| self.of(field)).sum();
        let share = |(field, name): &(&str, &'static str)| {
            (*name, self.of(field) as f64 / all.max(1) as f64)
        };
        let mut shares: Vec<_> =
            of.iter().map(share).filter(|(_, share)| *share >= 0.005).collect();
        shares.sort_by(|one, other| other.1.total_cmp(&one.1));
        shares
    }
}

/// A curve of one line: each character is the mean of a part of the values. `top` is the value of a full block; if
/// absent, the largest mean.
pub(super) fn curve(values: &[Option<f64>], width: usize, top: Option<f64>) -> String {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let part = values.len().div_ceil(width.max(1)).max(1);
    let mean = |values: &[Option<f64>]| {
        let known: Vec<f64> = values.iter().copied().flatten().collect();
        (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
    };
    let means: Vec<Option<f64>> = values.chunks(part).map(mean).collect();
    let top = top.unwrap_or_else(|| means.iter().copied().flatten().fold(0.0, f64::max));
    let block = |mean: &Option<f64>| match mean {
        None => ' ',
        Some(_) if top <= 0.0 => BLOCKS[0],
        Some(mean) => BLOCKS[((mean / top * 7.99) as usize).min(7)],
    };
    let drawn: String = means.iter().map(block).collect();
    format!("{drawn:>width$}")
}

#[cfg(test)]
mod tests {
    use super::super::told::tests::grown;
    use super::*;

    #[test]
    fn counters_become_rates_of_the_last_seconds() {
        let told = grown(&[
            ("hits", 30),
            ("misses", 10),
            ("tcp_bytes", 900),
            ("own_bytes", 100),
            ("puts", 5),
        ]);
        let growth = Growth::of_now(&told).expect("two samples");
        assert_eq!((growth.per_second("hits"), growth.hit_share()), (3.0, Some(0.75)));
        assert_eq!((growth.read(), growth.per_second("puts")), (100.0, 0.5));
        assert_eq!(growth.shares(&WAYS), [("TCP", 0.9), ("own process", 0.1)]);
        assert_eq!(growth.shares(&TIERS), []);
    }

    #[test]
    fn samples_of_two_leaderships_and_beside_a_gap_are_not_compared() {
        let mut told = grown(&[("hits", 30)]);
        told.samples[0][1] = 6;
        assert!(Growth::of_now(&told).is_none());
        let mut told = grown(&[("hits", 30)]);
        told.samples[1][0] += MOST_MS;
        assert!(Growth::of_now(&told).is_none() && Growth::of_hour(&told).all(|it| it.is_none()));
        assert!(Growth::of_now(&Told::default()).is_none());
    }

    #[test]
    fn a_curve_has_a_character_for_each_part_and_a_blank_where_nothing_is_known() {
        let values = [Some(0.0), Some(1.0), None, Some(8.0), Some(4.0), Some(4.0)];
        for (width, top, expected) in
            [(6, None, "▁▁ █▄▄"), (3, None, "▁█▄"), (8, None, "  ▁▁ █▄▄"), (3, Some(16.0), "▁▄▂")]
        {
            assert_eq!(curve(&values, width, top), expected, "{width}");
        }
        assert_eq!(curve(&[], 3, None), "   ");
        assert_eq!(curve(&[Some(0.0)], 1, None), "▁");
    }
}
