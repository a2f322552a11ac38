use std::sync::atomic::{AtomicU8, Ordering};

/// What is counted together: no range that is written this way is shorter.
const PART_BYTES: u64 = super::in_place::MIN_BYTES;

/// A page that this process writes through its mapping for the first time costs about three times what the system asks
/// more than a mapping for each copy; so three copies by the system come first.
const UNMAPPED_WRITES: u8 = 3;

/// How often each part of a segment was written by this process.
pub(super) struct Touches(Box<[AtomicU8]>);

impl Touches {
    pub(super) fn of(len: u64) -> Self {
        Self((0..len.div_ceil(PART_BYTES)).map(|_| AtomicU8::new(0)).collect())
    }

    /// Counts a write that starts at `offset`; tells whether it is one of the first, for which the mapping does not pay.
    pub(super) fn is_one_of_the_first(&self, offset: u64) -> bool {
        let part = usize::try_from(offset / PART_BYTES).ok().and_then(|part| self.0.get(part));
        part.is_some_and(|part| {
            // A write that another thread counts at the same time may go uncounted.
            let count = part.load(Ordering::Relaxed);
            if count < UNMAPPED_WRITES {
                part.store(count + 1, Ordering::Relaxed);
            }
            count < UNMAPPED_WRITES
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_writes_of_each_part_are_told() {
        let touches = Touches::of(2 * PART_BYTES + 1);
        let told = |offset: u64| -> Vec<bool> {
            (0..5).map(|_| touches.is_one_of_the_first(offset)).collect()
        };
        assert_eq!(told(PART_BYTES + 7), [true, true, true, false, false]);
        assert_eq!(told(PART_BYTES), [false; 5]);
        assert_eq!(told(2 * PART_BYTES), [true, true, true, false, false]);
        assert_eq!(told(3 * PART_BYTES), [false; 5], "beyond the segment");
        assert_eq!(told(u64::MAX), [false; 5]);
    }
}
