use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mooncake_memory::{Place, is_readable};
use mooncake_types::ErrorCode;

use crate::pointer;

/// The end and the place of each buffer, by its start.
type Buffers = BTreeMap<usize, (usize, Place)>;

/// A range of memory that transfers may use, as large as it is known to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownMemory {
    /// The first byte.
    pub start: usize,
    /// The address behind the last byte.
    pub end: usize,
    /// The memory of the host, or of which device.
    pub place: Place,
}

impl KnownMemory {
    /// Whether all of these bytes lie in it.
    #[must_use]
    pub fn holds(&self, ptr: usize, len: usize) -> bool {
        self.start <= ptr && ptr <= self.end && len > 0 && len <= self.end - ptr
    }
}

/// Memory of the caller that transfers may use: address ranges of the host and of devices that do not overlap.
#[derive(Debug, Default)]
pub struct RegisteredBuffers(Mutex<Buffers>);

impl RegisteredBuffers {
    /// Registers `len` bytes from address `ptr` on.
    ///
    /// # Errors
    /// - [`ErrorCode::InvalidParams`] for a null pointer, no bytes, or an overlap with a registered buffer.
    /// - [`ErrorCode::InvalidParams`] for memory that is neither all of the host nor all of one device. A warning in
    ///   the log says what that memory is.
    pub fn register(&self, ptr: usize, len: usize) -> Result<(), ErrorCode> {
        let place = pointer::place_of_buffer(ptr, len)?;
        self.insert(ptr, len, place)
    }

    /// Forgets the buffer that was registered with this start.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidParams`] if there is none.
    pub fn unregister(&self, ptr: usize) -> Result<(), ErrorCode> {
        self.lock().remove(&ptr).map(|_| ()).ok_or(ErrorCode::InvalidParams)
    }

    /// The known memory around these bytes, if a transfer may use them: they lie in one registered buffer, or begin
    /// outside of all.
    ///
    /// # Errors
    /// - [`ErrorCode::InvalidParams`] for a null pointer, or no bytes.
    /// - [`ErrorCode::InvalidParams`] for bytes that begin in a registered buffer and run past its end.
    /// - [`ErrorCode::InvalidParams`] for bytes that begin outside of all buffers and not in memory of the host.
    pub fn check(&self, ptr: usize, len: usize) -> Result<KnownMemory, ErrorCode> {
        match self.find(ptr, len)? {
            Some(known) => Ok(known),
            None if is_readable(ptr) => {
                Ok(KnownMemory { start: ptr, end: ptr + len, place: Place::Host })
            }
            None => Err(ErrorCode::InvalidParams),
        }
    }

    fn insert(&self, start: usize, len: usize, place: Place) -> Result<(), ErrorCode> {
        let end = end_of(start, len)?;
        let mut buffers = self.lock();
        let before = buffers.range(..end).next_back();
        if before.is_some_and(|(_, &(taken_to, _))| taken_to > start) {
            return Err(ErrorCode::InvalidParams);
        }
        buffers.insert(start, (end, place));
        Ok(())
    }

    /// The registered buffer that holds `len` bytes from `start` on; `None` if they begin outside of all buffers.
    fn find(&self, start: usize, len: usize) -> Result<Option<KnownMemory>, ErrorCode> {
        let end = end_of(start, len)?;
        let buffers = self.lock();
        let around = buffers.range(..=start).next_back();
        match around.filter(|&(_, &(taken_to, _))| start < taken_to) {
            Some((_, &(taken_to, _))) if end > taken_to => Err(ErrorCode::InvalidParams),
            around => Ok(around.map(|(&start, &(end, place))| KnownMemory { start, end, place })),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Buffers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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

    fn buffers() -> RegisteredBuffers {
        let buffers = RegisteredBuffers::default();
        assert_eq!(buffers.insert(100, 50, Place::Host), Ok(()));
        assert_eq!(buffers.insert(200, 50, Place::Device(1)), Ok(()));
        buffers
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
            assert_eq!(buffers().insert(start, len, Place::Host), expected, "{len} from {start}");
        }
    }

    #[test]
    fn a_buffer_is_forgotten_by_its_start_only() {
        let buffers = buffers();
        assert_eq!(buffers.unregister(101), REFUSED);
        assert_eq!(buffers.unregister(100), Ok(()));
        assert_eq!(buffers.unregister(100), REFUSED);
        assert_eq!(buffers.insert(120, 20, Place::Host), Ok(()));
    }

    #[test]
    fn a_transfer_stays_inside_of_the_buffer_it_starts_in() {
        let buffers = buffers();
        assert_eq!(buffers.insert(300, 50, Place::Host), Ok(()));
        let known = |start, end, place| Ok(Some(KnownMemory { start, end, place }));
        let inside = known(100, 150, Place::Host);
        let outside = Ok(None);
        let refused = Err(ErrorCode::InvalidParams);
        for (start, len, expected) in [
            (100, 50, inside),
            (120, 30, inside),
            (149, 1, inside),
            (249, 1, known(200, 250, Place::Device(1))),
            (150, 10, outside),
            (10, 5, outside),
            (1000, 1 << 30, outside),
            (100, 51, refused),
            (149, 2, refused),
            (220, usize::MAX, refused),
            (0, 1, refused),
            (120, 0, refused),
        ] {
            assert_eq!(buffers.find(start, len), expected, "{len} from {start}");
        }
    }

    #[test]
    fn known_memory_holds_what_lies_in_it() {
        let known = KnownMemory { start: 100, end: 150, place: Place::Host };
        for (start, len, holds) in [
            (100, 50, true),
            (149, 1, true),
            (149, 2, false),
            (150, 1, false),
            (99, 2, false),
            (120, 0, false),
            (120, usize::MAX, false),
        ] {
            assert_eq!(known.holds(start, len), holds, "{len} from {start}");
        }
    }
}
