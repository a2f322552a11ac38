use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mooncake_http::prometheus;

/// Upper bounds of latencies in microseconds, those of the C++ package.
const BOUNDS_US: [u64; 27] = [
    50, 75, 125, 150, 200, 250, 300, 400, 500, 750, 1_000, 1_500, 2_000, 3_000, 5_000, 7_000,
    15_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000, 5_000_000, 10_000_000,
    20_000_000,
];

/// Counts of durations by upper bounds. Many threads may count at once; a report may miss concurrent counts.
#[derive(Debug)]
pub(super) struct Histogram {
    /// By bound; those above all bounds come last.
    counts: [AtomicU64; BOUNDS_US.len() + 1],
    sum_ns: AtomicU64,
}

/// A histogram at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HistogramSnapshot {
    counts: [u64; BOUNDS_US.len() + 1],
    sum_ns: u64,
}

impl Histogram {
    pub(super) const fn new() -> Self {
        let counts = [const { AtomicU64::new(0) }; BOUNDS_US.len() + 1];
        Self { counts, sum_ns: AtomicU64::new(0) }
    }

    pub(super) fn observe(&self, took: Duration) {
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let place = BOUNDS_US.partition_point(|bound| bound * 1_000 < ns);
        self.counts[place].fetch_add(1, Ordering::Relaxed);
        self.sum_ns.fetch_add(ns, Ordering::Relaxed);
    }

    pub(super) fn report(&self) -> HistogramSnapshot {
        HistogramSnapshot {
            counts: std::array::from_fn(|place| self.counts[place].load(Ordering::Relaxed)),
            sum_ns: self.sum_ns.load(Ordering::Relaxed),
        }
    }
}

impl HistogramSnapshot {
    pub(super) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The histogram in the form that Prometheus reads.
    pub(super) fn written(&self) -> prometheus::Histogram {
        let bounds = BOUNDS_US.iter().map(|bound| *bound as f64).chain([f64::INFINITY]);
        prometheus::Histogram {
            sum: self.sum_ns as f64 / 1_000.0,
            count: self.count(),
            buckets: bounds.zip(self.counts).collect(),
        }
    }

    /// A line for people: the count, and the bounds below which 95 of 100 durations and all durations lie.
    pub(super) fn summary(&self) -> String {
        let count = self.count();
        if count == 0 {
            return "No data".to_owned();
        }
        let wanted = count - count / 20;
        let mut seen = 0;
        let reached = self.counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        let highest = self.counts.iter().rposition(|count| *count > 0);
        format!("count={count}, p95{}, max{}", below(reached), below(highest))
    }
}

fn below(place: Option<usize>) -> String {
    match place.and_then(|place| BOUNDS_US.get(place)) {
        Some(bound) => format!("<{bound}μs"),
        None => format!(">{}μs", BOUNDS_US[BOUNDS_US.len() - 1]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(durations_ns: &[u64]) -> Histogram {
        let histogram = Histogram::new();
        for ns in durations_ns {
            histogram.observe(Duration::from_nanos(*ns));
        }
        histogram
    }

    #[test]
    fn durations_fall_under_the_first_bound_that_holds_them() {
        let written = histogram(&[0, 50_000, 50_001, 75_000, u64::MAX / 2]).report().written();
        let filled: Vec<(f64, u64)> =
            written.buckets.iter().copied().filter(|(_, count)| *count > 0).collect();
        assert_eq!(filled, vec![(50.0, 2), (75.0, 2), (f64::INFINITY, 1)]);
        assert_eq!(written.count, 5);
        assert_eq!(written.buckets.len(), BOUNDS_US.len() + 1);
        assert_eq!(histogram(&[1_500, 2_500]).report().written().sum, 4.0);
    }

    #[test]
    fn bounds_rise() {
        assert!(BOUNDS_US.is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn summaries() {
        let nineteen_short = [&[1_000u64; 19][..], &[60_000]].concat();
        let cases = [
            (vec![], "No data"),
            (vec![1], "count=1, p95<50μs, max<50μs"),
            (nineteen_short, "count=20, p95<50μs, max<75μs"),
            (vec![1, 60_000], "count=2, p95<75μs, max<75μs"),
            (vec![1, 21_000_000_000], "count=2, p95>20000000μs, max>20000000μs"),
        ];
        for (durations, expected) in cases {
            assert_eq!(histogram(&durations).report().summary(), expected, "{durations:?}");
        }
    }
}
