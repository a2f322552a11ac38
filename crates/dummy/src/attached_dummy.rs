use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mooncake_memory::{RawSlice, Region, SliceList};
use mooncake_types::{ErrorCode, Piece};

use super::malformed::Malformed;

/// Most regions that one dummy shares. So all dummies together share far fewer regions than a process can map.
const MAX_MAPS: usize = 256;

/// Most bytes of all regions of one dummy.
const MAX_MAPPED_BYTES: u64 = 1 << 46;

/// A dummy as its host process knows it while the control connection is open: its identity, and the memory that it
/// shares.
#[derive(Debug)]
pub(super) struct AttachedDummy {
    /// The number of the attachment.
    pub(super) id: u128,
    /// The process of the dummy, if the system names it.
    pub(super) pid: Option<i32>,
    /// `None` once the dummy is detached.
    regions: Mutex<Option<Arc<SharedRegions>>>,
}

/// The shared regions of a dummy at one moment, by number. They stay mapped while this lives.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedRegions {
    regions: BTreeMap<u32, Arc<Region>>,
    next: u32,
    bytes: u64,
}

impl AttachedDummy {
    pub(super) fn new(id: u128, pid: Option<i32>) -> Self {
        Self { id, pid, regions: Mutex::new(Some(Arc::default())) }
    }

    /// `None` once the dummy is detached.
    pub(super) fn regions(&self) -> Option<Arc<SharedRegions>> {
        self.lock().clone()
    }

    /// Maps memory that the dummy handed over. Returns the number by which pieces name it. A detached dummy shares
    /// nothing any more: [`ErrorCode::ClientNotFound`].
    pub(super) fn share(&self, memory: OwnedFd, len: u64) -> Result<u32, ErrorCode> {
        let mut regions = self.lock();
        let held = regions.as_mut().ok_or(ErrorCode::ClientNotFound)?;
        let fits = held.bytes.checked_add(len).is_some_and(|bytes| bytes <= MAX_MAPPED_BYTES);
        if held.regions.len() >= MAX_MAPS || !fits {
            tracing::warn!(pid = ?self.pid, len, "a dummy client shares more than it may");
            return Err(ErrorCode::NoAvailableHandle);
        }
        let region = Region::received(memory, len).map_err(|error| {
            tracing::warn!(pid = ?self.pid, len, %error, "the memory of a dummy client is not taken");
            ErrorCode::InvalidParams
        })?;
        let shared = Arc::make_mut(held);
        let map = shared.next;
        // Numbers are never used again, so that a late piece cannot name a wrong region.
        shared.next = map.checked_add(1).ok_or(ErrorCode::NoAvailableHandle)?;
        shared.bytes += len;
        shared.regions.insert(map, Arc::new(region));
        Ok(map)
    }

    /// Unmaps a region when the last transfer in it has ended.
    pub(super) fn unshare(&self, map: u32) -> Result<(), ErrorCode> {
        let mut regions = self.lock();
        let shared = Arc::make_mut(regions.as_mut().ok_or(ErrorCode::ClientNotFound)?);
        let region = shared.regions.remove(&map).ok_or(ErrorCode::InvalidParams)?;
        shared.bytes -= region.len();
        Ok(())
    }

    /// Unmaps everything when the last transfers have ended.
    pub(super) fn let_go(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<SharedRegions>>> {
        self.regions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SharedRegions {
    /// The memory that a piece names.
    pub(super) fn slice(&self, piece: &Piece) -> Result<RawSlice<'_>, Malformed> {
        let region =
            self.regions.get(&piece.map).ok_or(Malformed("a piece is of memory not shared"))?;
        let slice = region.slice(piece.offset, piece.len);
        slice.map_err(|_| Malformed("a piece lies outside of its memory"))
    }

    /// The memory that pieces name, in order.
    pub(super) fn list(&self, pieces: &[Piece]) -> Result<SliceList<'_>, Malformed> {
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
        let dummy = AttachedDummy::new(1, None);
        let map = dummy.share(memory(4096), 4096).expect("it is good memory");
        let other = dummy.share(memory(8192), 8192).expect("it is good memory");
        let shared = dummy.regions().expect("it is attached");
        let len = |map, offset, len| shared.slice(&Piece { map, offset, len }).map(|it| it.len());
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
            (dummy.unshare(map), dummy.unshare(map)),
            (Ok(()), Err(ErrorCode::InvalidParams))
        );
        assert_eq!(len(map, 0, 10), Ok(10), "who holds the regions keeps them");
        let shared = dummy.regions().expect("it is attached");
        let gone = shared.slice(&Piece { map, offset: 0, len: 1 }).map(|it| it.len());
        assert_eq!(gone, unknown);
    }

    #[test]
    fn a_dummy_shares_no_more_than_it_may() {
        let dummy = AttachedDummy::new(1, None);
        assert_eq!(dummy.share(memory(4096), 4097), Err(ErrorCode::InvalidParams));
        assert_eq!(dummy.share(memory(4096), 0), Err(ErrorCode::InvalidParams));
        assert_eq!(dummy.share(memory(4096), u64::MAX), Err(ErrorCode::NoAvailableHandle));
        assert_eq!(dummy.share(memory(4096), 4096), Ok(0));
        dummy.let_go();
        assert!(dummy.regions().is_none(), "it is detached");
        assert_eq!(dummy.share(memory(4096), 4096), Err(ErrorCode::ClientNotFound));
        assert_eq!(dummy.unshare(0), Err(ErrorCode::ClientNotFound));
    }
}
