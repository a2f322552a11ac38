//! One line of the result: what one kind of call took.

use std::time::Duration;

use mooncake_types::ByteSize;
use serde::{Deserialize, Serialize};

/// How long the calls of one kind took.
#[derive(Debug, Default)]
pub(super) struct Samples(Vec<Duration>);

impl Samples {
    pub(super) fn push(&mut self, took: Duration) {
        self.0.push(took);
    }
}

/// The figures of one kind of call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Row {
    /// `put`, `get` or `exists`.
    pub(super) operation: String,
    /// The length of an object; absent where no bytes move.
    pub(super) len_bytes: Option<u64>,
    /// Objects in a call.
    pub(super) at_once: usize,
    pub(super) calls: usize,
    pub(super) median_us: f64,
    pub(super) p99_us: f64,
    pub(super) objects_per_second: f64,
}

impl Row {
    /// The figures of at least one call.
    pub(super) fn of(
        operation: &str,
        len_bytes: Option<u64>,
        at_once: usize,
        samples: Samples,
    ) -> Self {
        let mut times = samples.0;
        times.sort_unstable();
        let calls = times.len();
        let at = |share: f64| times.get((calls as f64 * share) as usize).or(times.last());
        let us = |time: Option<&Duration>| time.map_or(0.0, |time| time.as_secs_f64() * 1e6);
        let all: Duration = times.iter().sum();
        Self {
            operation: operation.to_owned(),
            len_bytes,
            at_once,
            calls,
            median_us: us(at(0.5)),
            p99_us: us(at(0.99)),
            objects_per_second: (calls * at_once) as f64 / all.as_secs_f64().max(1e-9),
        }
    }

    /// Whether the other row measures the same.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let what = |row: &Self| (row.operation.clone(), row.len_bytes, row.at_once);
        what(self) == what(other)
    }

    pub(super) fn cells(&self) -> [String; 7] {
        let speed = self.len_bytes.map(|len| len as f64 * self.objects_per_second / 1e6);
        [
            self.operation.clone(),
            self.len_bytes.map_or_else(|| "-".to_owned(), |len| ByteSize(len).to_string()),
            self.at_once.to_string(),
            format!("{:.1}", self.median_us),
            format!("{:.1}", self.p99_us),
            format!("{:.0}", self.objects_per_second),
            speed.map_or_else(|| "-".to_owned(), |speed| format!("{speed:.0}")),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_follow_from_the_calls() {
        let mut samples = Samples::default();
        (1..=100).for_each(|ms| samples.push(Duration::from_millis(ms)));
        let row = Row::of("put", Some(1 << 20), 2, samples);
        let seconds = 5.05;
        assert_eq!((row.calls, row.median_us, row.p99_us), (100, 51_000.0, 100_000.0));
        assert!((row.objects_per_second - 200.0 / seconds).abs() < 1e-6, "{row:?}");
        assert_eq!(row.cells(), ["put", "1 MB", "2", "51000.0", "100000.0", "40", "42"]);
        let lookup = Row::of("exists", None, 1, Samples(vec![Duration::from_micros(10)]));
        assert_eq!(lookup.cells(), ["exists", "-", "1", "10.0", "10.0", "100000", "-"]);
        assert!(lookup.is_like(&lookup.clone()) && !lookup.is_like(&row));
    }
}
