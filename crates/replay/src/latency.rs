//! Durations of calls.

use std::time::Duration;

/// The durations of one kind of call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Latencies(Vec<Duration>);

impl Latencies {
    pub(crate) fn record(&mut self, took: Duration) {
        self.0.push(took);
    }

    pub(crate) fn append(&mut self, other: &mut Latencies) {
        self.0.append(&mut other.0);
    }

    pub(crate) fn total(&self) -> Duration {
        self.0.iter().sum()
    }

    pub(crate) fn calls(&self) -> usize {
        self.0.len()
    }

    /// The durations that these shares of all calls did not exceed. Zero without calls.
    pub(crate) fn quantiles<const N: usize>(&self, shares: [f64; N]) -> [Duration; N] {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        shares.map(|share| {
            let index = (sorted.len() as f64 * share) as usize;
            sorted.get(index.min(sorted.len().saturating_sub(1))).copied().unwrap_or_default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_sorted_calls() {
        let mut calls = Latencies::default();
        assert_eq!(calls.quantiles([0.5, 0.99]), [Duration::ZERO; 2]);
        for ms in (1..=100).rev() {
            calls.record(Duration::from_millis(ms));
        }
        assert_eq!(calls.quantiles([0.5, 0.99, 1.0]), [51, 100, 100].map(Duration::from_millis));
        assert_eq!(calls.total(), Duration::from_millis(5050));
    }
}
