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
    /// Whether the range lies in registered buffers in part only.
    pub is_mixed: bool,
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
    /// Registers `len` bytes from address `ptr` on. Returns where they lie.
    ///
    /// # Errors
    /// - [`ErrorCode::InvalidParams`] for a null pointer, no bytes, or an overlap with a registered buffer.
    /// - [`ErrorCode::InvalidParams`] for memory that is neither all of the host nor all of one device. A warning in
    ///   the log says what that memory is.
    pub fn register(&self, ptr: usize, len: usize) -> Result<Place, ErrorCode> {
        let place = pointer::place_of_buffer(ptr, len)?;
        self.insert(ptr, len, place).map(|()| place)
    }

    /// Forgets the buffer that was registered with this start.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidParams`] if there is none.
    pub fn unregister(&self, ptr: usize) -> Result<(), ErrorCode> {
        self.lock().remove(&ptr).map(|_| ()).ok_or(ErrorCode::InvalidParams)
    }

    /// The known memory around these bytes, if a transfer may use them: memory of the host, or registered buffers of
    /// one device that adjoin.
    ///
    /// # Errors
    /// - [`ErrorCode::InvalidParams`] for a null pointer, or no bytes.
    /// - [`ErrorCode::InvalidParams`] for bytes that are registered in part as memory of a device, and in part not, or
    ///   otherwise.
    /// - [`ErrorCode::InvalidParams`] for bytes outside of all buffers that do not begin in memory of the host.
    pub fn check(&self, ptr: usize, len: usize) -> Result<KnownMemory, ErrorCode> {
        let (known, gaps) = self.around(ptr, len)?;
        match gaps.iter().all(|&gap| is_readable(gap)) {
            true => Ok(known),
            false => Err(ErrorCode::InvalidParams),
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

    /// The known memory around `len` bytes from `start` on, and the start of each of its parts that lies in no buffer.
    /// These parts must be memory of the host.
    fn around(&self, start: usize, len: usize) -> Result<(KnownMemory, Vec<usize>), ErrorCode> {
        let end = end_of(start, len)?;
        let buffers = self.lock();
        let before = buffers.range(..=start).next_back();
        let mut known = match before.filter(|&(_, &(taken_to, _))| start < taken_to) {
            Some((&start, &(end, place))) => KnownMemory { start, end, place, is_mixed: false },
            None => KnownMemory { start, end: start, place: Place::Host, is_mixed: false },
        };
        let mut is_buffered = known.end > start;
        let mut gaps = Vec::new();
        for (&from, &(taken_to, place)) in buffers.range(start + 1..end) {
            if from > known.end {
                gaps.push(known.end);
            }
            if place != known.place {
                return Err(ErrorCode::InvalidParams);
            }
            known.end = taken_to;
            is_buffered = true;
        }
        if known.end < end {
            gaps.push(known.end);
            known.end = end;
        }
        known.is_mixed = is_buffered && !gaps.is_empty();
        match gaps.is_empty() || known.place == Place::Host {
            true => Ok((known, gaps)),
            false => Err(ErrorCode::InvalidParams),
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
    fn a_transfer_spans_buffers_that_adjoin_and_memory_of_the_host_between_and_behind_them() {
        let buffers = buffers();
        assert_eq!(buffers.insert(250, 50, Place::Device(1)), Ok(()));
        assert_eq!(buffers.insert(300, 50, Place::Device(2)), Ok(()));
        assert_eq!(buffers.insert(400, 50, Place::Host), Ok(()));
        assert_eq!(buffers.insert(450, 50, Place::Host), Ok(()));
        assert_eq!(buffers.insert(600, 50, Place::Host), Ok(()));
        let known = |start, end, place, gaps: &[usize]| {
            let is_mixed = buffers.lock().range(start..end).next().is_some() && !gaps.is_empty();
            Ok((KnownMemory { start, end, place, is_mixed }, gaps.to_vec()))
        };
        let host = |start, end, gaps: &[usize]| known(start, end, Place::Host, gaps);
        let refused = Err(ErrorCode::InvalidParams);
        for (start, len, expected) in [
            (100, 50, host(100, 150, &[])),
            (149, 1, host(100, 150, &[])),
            (400, 100, host(400, 500, &[])),
            (449, 2, host(400, 500, &[])),
            (450, 200, host(450, 650, &[500])),
            (390, 300, host(390, 690, &[390, 500, 650])),
            (100, 51, host(100, 151, &[150])),
            (150, 10, host(150, 160, &[150])),
            (10, 5, host(10, 15, &[10])),
            (1000, 1 << 30, host(1000, 1000 + (1 << 30), &[1000])),
            (249, 1, known(200, 250, Place::Device(1), &[])),
            (200, 100, known(200, 300, Place::Device(1), &[])),
            (249, 2, known(200, 300, Place::Device(1), &[])),
            (299, 2, refused.clone()),
            (349, 2, refused.clone()),
            (350, 50, host(350, 400, &[350])),
            (199, 2, refused.clone()),
            (149, 52, refused.clone()),
            (320, 100, refused.clone()),
            (400, usize::MAX, refused.clone()),
            (0, 1, refused.clone()),
            (120, 0, refused),
        ] {
            assert_eq!(buffers.around(start, len), expected, "{len} from {start}");
        }
    }

    #[test]
    fn memory_that_is_not_there_is_refused_behind_a_buffer_too() {
        let bytes = vec![0_u8; 8192];
        let (start, buffers) = (bytes.as_ptr().addr(), RegisteredBuffers::default());
        assert_eq!(buffers.insert(start, 4096, Place::Host), Ok(()));
        assert_eq!(buffers.insert(1 << 46, 4096, Place::Host), Ok(()));
        let known = KnownMemory { start, end: start + 8192, place: Place::Host, is_mixed: true };
        assert_eq!(buffers.check(start, 8192), Ok(known));
        assert_eq!(buffers.check(1 << 46, 8192), Err(ErrorCode::InvalidParams));
        assert_eq!(buffers.check(4096, 1), Err(ErrorCode::InvalidParams));
    }

    #[test]
    fn known_memory_holds_what_lies_in_it() {
        let known = KnownMemory { start: 100, end: 150, place: Place::Host, is_mixed: false };
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
