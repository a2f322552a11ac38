use mooncake_http::prometheus;

/// Counts of values by upper bounds that are fixed at compile time. The counts are plain numbers: the owner writes
/// them, readers get a copy.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Histogram<const N: usize> {
    bounds: &'static [f64; N],
    counts: [u64; N],
    above: u64,
    sum: f64,
}

impl<const N: usize> Histogram<N> {
    pub(crate) const fn new(bounds: &'static [f64; N]) -> Self {
        Self { bounds, counts: [0; N], above: 0, sum: 0.0 }
    }

    pub(crate) fn observe(&mut self, value: f64) {
        match self.bounds.iter().position(|bound| value <= *bound) {
            Some(index) => self.counts[index] += 1,
            None => self.above += 1,
        }
        self.sum += value;
    }

    /// How many values were larger than one of the bounds.
    pub(crate) fn above(&self, bound: f64) -> u64 {
        let larger = self.bounds.iter().zip(self.counts).filter(|(upper, _)| **upper > bound);
        larger.map(|(_, count)| count).sum::<u64>() + self.above
    }

    /// The histogram as Prometheus text needs it.
    pub(crate) fn report(&self) -> prometheus::Histogram {
        let bounded = self.bounds.iter().copied().zip(self.counts);
        prometheus::Histogram {
            sum: self.sum,
            count: self.counts.iter().sum::<u64>() + self.above,
            buckets: bounded.chain([(f64::INFINITY, self.above)]).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_fall_under_the_first_bound_that_holds_them() {
        let mut histogram = Histogram::new(&[1.0, 10.0]);
        for value in [0.5, 1.0, 2.0, 10.0, 11.0] {
            histogram.observe(value);
        }
        let buckets = vec![(1.0, 2), (10.0, 2), (f64::INFINITY, 1)];
        let expected = prometheus::Histogram { sum: 24.5, count: 5, buckets };
        assert_eq!(histogram.report(), expected);
    }
}
