use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mooncake_memory::{RawSlice, Region, SliceList};
use mooncake_types::ErrorCode;

use super::protocol::{Malformed, Piece};

/// Most regions that one guest shares: those of all guests together are far fewer than a process can map.
const MAX_MAPS: usize = 256;

/// Most bytes of all of them together.
const MAX_MAPPED_BYTES: u64 = 1 << 46;

/// A dummy as its host process knows it: who it is, and the memory that it shares.
#[derive(Debug)]
pub(super) struct Guest {
    pub(super) id: u128,
    /// The process on the other side, where that can be told.
    pub(super) pid: Option<i32>,
    maps: Mutex<Arc<Maps>>,
}

/// The shared regions of a guest at one moment. Whoever holds it keeps them mapped.
#[derive(Clone, Debug, Default)]
pub(super) struct Maps {
    regions: BTreeMap<u32, Arc<Region>>,
    next: u32,
    bytes: u64,
}

impl Guest {
    pub(super) fn new(id: u128, pid: Option<i32>) -> Self {
        Self { id, pid, maps: Mutex::default() }
    }

    pub(super) fn maps(&self) -> Arc<Maps> {
        Arc::clone(&self.lock())
    }

    /// Maps what the guest handed over; gives the number that its pieces name it by.
    pub(super) fn share(&self, memory: OwnedFd, len: u64) -> Result<u32, ErrorCode> {
        let mut held = self.lock();
        let fits = held.bytes.checked_add(len).is_some_and(|bytes| bytes <= MAX_MAPPED_BYTES);
        if held.regions.len() >= MAX_MAPS || !fits {
            tracing::warn!(pid = ?self.pid, len, "a dummy client shares more than it may");
            return Err(ErrorCode::NoAvailableHandle);
        }
        let region = Region::received(memory, len).map_err(|error| {
            tracing::warn!(pid = ?self.pid, len, %error, "the memory of a dummy client is not taken");
            ErrorCode::InvalidParams
        })?;
        let maps = Arc::make_mut(&mut held);
        let map = maps.next;
        // Numbers are never used again, so that a late piece cannot name another region than it meant.
        maps.next = map.checked_add(1).ok_or(ErrorCode::NoAvailableHandle)?;
        maps.bytes += len;
        maps.regions.insert(map, Arc::new(region));
        Ok(map)
    }

    /// Unmaps a region when the last transfer in it has ended.
    pub(super) fn unshare(&self, map: u32) -> Result<(), ErrorCode> {
        let mut held = self.lock();
        let maps = Arc::make_mut(&mut held);
        let region = maps.regions.remove(&map).ok_or(ErrorCode::InvalidParams)?;
        maps.bytes -= region.len();
        Ok(())
    }

    /// Unmaps everything when the last transfers have ended.
    pub(super) fn let_go(&self) {
        *self.lock() = Arc::default();
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Maps>> {
        self.maps.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Maps {
    /// The memory that a piece names.
    pub(super) fn slice(&self, piece: &Piece) -> Result<RawSlice, Malformed> {
        let region =
            self.regions.get(&piece.map).ok_or(Malformed("a piece is of memory not shared"))?;
        let slice = region.slice(piece.offset, piece.len);
        slice.map_err(|_| Malformed("a piece lies outside of its memory"))
    }

    /// The memory that pieces name, in order.
    pub(super) fn list(&self, pieces: &[Piece]) -> Result<SliceList, Malformed> {
        pieces.iter().map(|piece| self.slice(piece)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(len: u64) -> OwnedFd {
        let region = Region::anonymous(len).expect("a little memory");
        region.descriptor().expect("its own").try_clone_to_owned().expect("a descriptor")
    }

    #[test]
    fn pieces_name_places_in_shared_memory_and_nothing_else() {
        let guest = Guest::new(1, None);
        let map = guest.share(memory(4096), 4096).expect("it is good memory");
        let other = guest.share(memory(8192), 8192).expect("it is good memory");
        let maps = guest.maps();
        let len = |map, offset, len| maps.slice(&Piece { map, offset, len }).map(|it| it.len());
        let outside = Err(Malformed("a piece lies outside of its memory"));
        let unknown = Err(Malformed("a piece is of memory not shared"));
        for (found, expected) in [
            (len(map, 0, 4096), Ok(4096)),
            (len(map, 4096, 0), Ok(0)),
            (len(other, 4096, 4096), Ok(4096)),
            (len(map, 1, 4096), outside),
            (len(map, u64::MAX, 2), outside),
            (len(map, 2, u64::MAX), outside),
            (len(2, 0, 1), unknown),
        ] {
            assert_eq!(found, expected);
        }
        assert_eq!(
            (guest.unshare(map), guest.unshare(map)),
            (Ok(()), Err(ErrorCode::InvalidParams))
        );
        assert_eq!(len(map, 0, 10), Ok(10), "who holds the maps keeps them");
        let gone = guest.maps().slice(&Piece { map, offset: 0, len: 1 }).map(|it| it.len());
        assert_eq!(gone, unknown);
    }

    #[test]
    fn a_guest_shares_no_more_than_it_may() {
        let guest = Guest::new(1, None);
        assert_eq!(guest.share(memory(4096), 4097), Err(ErrorCode::InvalidParams));
        assert_eq!(guest.share(memory(4096), 0), Err(ErrorCode::InvalidParams));
        assert_eq!(guest.share(memory(4096), u64::MAX), Err(ErrorCode::NoAvailableHandle));
        assert_eq!(guest.share(memory(4096), 4096), Ok(0));
        guest.let_go();
        let piece = Piece { map: 0, offset: 0, len: 1 };
        assert!(guest.maps().slice(&piece).is_err());
    }
}
