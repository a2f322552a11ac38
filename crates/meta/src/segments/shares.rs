//! The bytes of the segments that take puts, so that one can be drawn whose chance is its share of them.

/// The lengths of segments by their places. One is changed, and one is drawn, in a number of steps that grows with the logarithm of
/// their number.
#[derive(Debug, Default)]
pub(super) struct Shares {
    /// A tree of sums (Fenwick, 1994): the one at `i` is of as many places, the last of which is `i`, as the lowest bit of `i + 1`
    /// says.
    sums: Vec<u64>,
    bytes: u64,
}

/// Places that the sum at a number counted from 1 is of.
const fn width(number: usize) -> usize {
    number & number.wrapping_neg()
}

impl Shares {
    /// One more segment has this length, at the next place.
    pub(super) fn push(&mut self, len: u64) {
        let number = self.sums.len() + 1;
        let first = number - width(number);
        let (mut sum, mut before) = (len, number - 1);
        while before > first {
            sum += self.sums[before - 1];
            before -= width(before);
        }
        self.sums.push(sum);
        self.bytes += len;
    }

    /// The segment at a place, of this length, has gone, and the last one has come there.
    pub(super) fn swap_remove(&mut self, place: usize, len: u64, last_len: u64) {
        self.replace(place, len, last_len);
        self.replace(self.sums.len() - 1, last_len, 0);
        self.sums.pop();
    }

    fn replace(&mut self, place: usize, before: u64, after: u64) {
        let mut number = place + 1;
        while let Some(sum) = self.sums.get_mut(number - 1) {
            *sum = *sum - before + after;
            number += width(number);
        }
        self.bytes = self.bytes - before + after;
    }

    /// The place of the segment that has this part of all bytes, of 2^64 parts; none if there is no byte.
    pub(super) fn at(&self, part: u64) -> Option<usize> {
        let mut byte = ((u128::from(self.bytes) * u128::from(part)) >> 64) as u64;
        let mut place = 0;
        let mut step = (self.sums.len() + 1).next_power_of_two() / 2;
        while step > 0 {
            if let Some(&sum) = self.sums.get(place + step - 1)
                && sum <= byte
            {
                byte -= sum;
                place += step;
            }
            step /= 2;
        }
        (place < self.sums.len()).then_some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    fn of(lens: &[u64]) -> Shares {
        let mut shares = Shares::default();
        lens.iter().for_each(|&len| shares.push(len));
        shares
    }

    #[test]
    fn each_place_is_drawn_for_its_share_of_the_bytes() {
        assert_eq!(Shares::default().at(7), None);
        assert_eq!(of(&[0, 0]).at(7), None);
        let shares = of(&[1, 0, 2, 5]);
        let drawn = (0..8).map(|eighth: u64| shares.at(eighth << 61).unwrap());
        assert_eq!(drawn.collect::<Vec<_>>(), [0, 2, 2, 3, 3, 3, 3, 3]);
        assert_eq!(shares.at(u64::MAX), Some(3));
    }

    #[test]
    fn segments_that_come_and_go_leave_the_shares_of_those_that_are_there() {
        let (mut shares, mut dice) = (Shares::default(), Rng::new(5));
        let mut lens: Vec<u64> = Vec::new();
        for _ in 0..5_000 {
            if lens.is_empty() || dice.below(lens.len() + 20) < 20 {
                let len = dice.below(6) as u64;
                lens.push(len);
                shares.push(len);
            } else {
                let place = dice.below(lens.len());
                shares.swap_remove(place, lens[place], lens[lens.len() - 1]);
                lens.swap_remove(place);
            }
            let bytes: u64 = lens.iter().sum();
            assert_eq!(shares.bytes, bytes);
            let part = dice.next_u64();
            let byte = ((u128::from(bytes) * u128::from(part)) >> 64) as u64;
            let mut end = 0;
            let expected = lens.iter().position(|len| {
                end += len;
                end > byte
            });
            assert_eq!(shares.at(part), expected, "byte {byte} of {lens:?}");
        }
    }
}
