/// Counts of values by upper bounds that are fixed at compile time. Plain numbers: one owner writes, readers get
/// a copy.
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

    pub(crate) fn sum(&self) -> f64 {
        self.sum
    }

    pub(crate) fn count(&self) -> u64 {
        self.counts.iter().sum::<u64>() + self.above
    }

    /// Each bound with the count of the values between it and the one below; infinity last.
    pub(crate) fn buckets(&self) -> Vec<(f64, u64)> {
        let bounded = self.bounds.iter().copied().zip(self.counts);
        bounded.chain([(f64::INFINITY, self.above)]).collect()
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
        assert_eq!(histogram.buckets(), vec![(1.0, 2), (10.0, 2), (f64::INFINITY, 1)]);
        assert_eq!((histogram.count(), histogram.sum()), (5, 24.5));
    }
}
