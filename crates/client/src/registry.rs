use std::collections::BTreeMap;

use mooncake_memory::Place;
use mooncake_types::ErrorCode;

/// The callers' registered buffers: address ranges that do not overlap, by their start.
#[derive(Clone, Debug, Default)]
pub(crate) struct Registry {
    /// Where each ends, and where its memory lies.
    buffers: BTreeMap<usize, (usize, Place)>,
}

/// Where memory lies that a transfer may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Checked {
    /// In a registered buffer, which lies there.
    Registered(Place),
    /// It starts outside of all.
    Unregistered,
}

impl Registry {
    /// Registers `len` bytes from `start` on, which lie in `place`.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidParams`] for a null pointer, no bytes, a range that runs past the end of the address space,
    /// or one that overlaps or repeats a registered one.
    pub(crate) fn register(
        &mut self,
        start: usize,
        len: usize,
        place: Place,
    ) -> Result<(), ErrorCode> {
        let end = end_of(start, len)?;
        let before = self.buffers.range(..end).next_back();
        if before.is_some_and(|(_, &(taken_to, _))| taken_to > start) {
            return Err(ErrorCode::InvalidParams);
        }
        self.buffers.insert(start, (end, place));
        Ok(())
    }

    /// Forgets the buffer that was registered with this start.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidParams`] if there is none.
    pub(crate) fn unregister(&mut self, start: usize) -> Result<(), ErrorCode> {
        self.buffers.remove(&start).map(|_| ()).ok_or(ErrorCode::InvalidParams)
    }

    /// Whether a transfer may use `len` bytes from `start` on: inside of one registered buffer, or outside of all.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidParams`] for a null pointer, no bytes, or bytes that run past the end of the registered
    /// buffer that they start in.
    pub(crate) fn check(&self, start: usize, len: usize) -> Result<Checked, ErrorCode> {
        let end = end_of(start, len)?;
        let around = self.buffers.range(..=start).next_back();
        match around.filter(|&(_, &(taken_to, _))| start < taken_to) {
            Some((_, &(taken_to, _))) if end > taken_to => Err(ErrorCode::InvalidParams),
            Some((_, &(_, place))) => Ok(Checked::Registered(place)),
            None => Ok(Checked::Unregistered),
        }
    }
}

fn end_of(start: usize, len: usize) -> Result<usize, ErrorCode> {
    if start == 0 || len == 0 {
        return Err(ErrorCode::InvalidParams);
    }
    start.checked_add(len).ok_or(ErrorCode::InvalidParams)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFUSED: Result<(), ErrorCode> = Err(ErrorCode::InvalidParams);

    fn registry() -> Registry {
        let mut registry = Registry::default();
        assert_eq!(registry.register(100, 50, Place::Host), Ok(()));
        assert_eq!(registry.register(200, 50, Place::Device(1)), Ok(()));
        registry
    }

    #[test]
    fn buffers_may_touch_and_not_overlap() {
        for (start, len, expected) in [
            (150, 50, Ok(())),
            (50, 50, Ok(())),
            (250, usize::MAX - 250, Ok(())),
            (100, 50, REFUSED),
            (120, 1, REFUSED),
            (90, 11, REFUSED),
            (149, 2, REFUSED),
            (90, 1000, REFUSED),
            (150, 51, REFUSED),
            (0, 10, REFUSED),
            (300, 0, REFUSED),
            (300, usize::MAX, REFUSED),
        ] {
            assert_eq!(
                registry().register(start, len, Place::Host),
                expected,
                "{len} from {start}"
            );
        }
    }

    #[test]
    fn a_buffer_is_forgotten_by_its_start_only() {
        let mut registry = registry();
        assert_eq!(registry.unregister(101), REFUSED);
        assert_eq!(registry.unregister(100), Ok(()));
        assert_eq!(registry.unregister(100), REFUSED);
        assert_eq!(registry.register(120, 20, Place::Host), Ok(()));
    }

    #[test]
    fn a_transfer_stays_inside_of_the_buffer_it_starts_in() {
        let mut registry = registry();
        assert_eq!(registry.register(300, 50, Place::Host), Ok(()));
        let inside = Ok(Checked::Registered(Place::Host));
        let outside = Ok(Checked::Unregistered);
        let refused = Err(ErrorCode::InvalidParams);
        for (start, len, expected) in [
            (100, 50, inside),
            (120, 30, inside),
            (149, 1, inside),
            (249, 1, Ok(Checked::Registered(Place::Device(1)))),
            (150, 10, outside),
            (10, 5, outside),
            (1000, 1 << 30, outside),
            (100, 51, refused),
            (149, 2, refused),
            (220, usize::MAX, refused),
            (0, 1, refused),
            (120, 0, refused),
        ] {
            assert_eq!(registry.check(start, len), expected, "{len} from {start}");
        }
    }
}
