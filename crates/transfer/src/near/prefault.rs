use std::sync::atomic::{AtomicBool, Ordering};

/// A range shorter than this is sent to the node: that takes one question, and a write in place takes two.
pub(super) const MIN_IN_PLACE_BYTES: u64 = 64 << 10;

/// Length of a part: no range that is written in place is shorter.
const PART_BYTES: u64 = MIN_IN_PLACE_BYTES;

/// Which parts of a segment this process has mapped to write them.
pub(super) struct PrefaultedParts(Box<[AtomicBool]>);

impl PrefaultedParts {
    pub(super) fn of(len: u64) -> Self {
        Self((0..len.div_ceil(PART_BYTES)).map(|_| AtomicBool::new(false)).collect())
    }

    /// Whether the part that a write at `offset` begins in is mapped. Beyond the segment there is nothing to map.
    pub(super) fn is_mapped(&self, offset: u64) -> bool {
        self.part(offset).is_none_or(|part| part.load(Ordering::Relaxed))
    }

    /// Notes that this part is mapped.
    pub(super) fn note_mapped(&self, offset: u64) {
        if let Some(part) = self.part(offset) {
            part.store(true, Ordering::Relaxed);
        }
    }

    fn part(&self, offset: u64) -> Option<&AtomicBool> {
        usize::try_from(offset / PART_BYTES).ok().and_then(|part| self.0.get(part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_is_mapped_once() {
        let prefaulted = PrefaultedParts::of(2 * PART_BYTES + 1);
        prefaulted.note_mapped(PART_BYTES + 7);
        prefaulted.note_mapped(3 * PART_BYTES);
        let mapped = [0, PART_BYTES, 2 * PART_BYTES, 3 * PART_BYTES, u64::MAX]
            .map(|offset| prefaulted.is_mapped(offset));
        assert_eq!(mapped, [false, true, false, true, true]);
    }
}
