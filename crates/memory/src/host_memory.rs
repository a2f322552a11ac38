use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::{Region, page_bytes};

/// Most simultaneous allocations. Each takes a mapping and a descriptor.
const MAX_ALLOCATIONS: usize = 1024;

/// Largest allocation, in bytes.
const MAX_ALLOCATION_BYTES: u64 = 1 << 46;

/// Memory that this process allocates by address and can hand to other processes. Each allocation is a [`Region`] of
/// its own, and can be found by any address in it.
#[derive(Debug, Default)]
pub struct HostMemory {
    regions: Mutex<BTreeMap<usize, Arc<Region>>>,
}

impl HostMemory {
    /// The allocations of this process.
    pub fn of_process() -> &'static HostMemory {
        static OF_PROCESS: OnceLock<HostMemory> = OnceLock::new();
        OF_PROCESS.get_or_init(HostMemory::default)
    }

    /// Allocates at least `len` zero bytes, a whole number of pages, and returns the first address. Returns `None` if
    /// `len` is zero or too large, there is no memory, or 1024 allocations exist.
    pub fn alloc(&self, len: u64) -> Option<usize> {
        if len > MAX_ALLOCATION_BYTES {
            return None;
        }
        let mut regions = self.lock();
        if regions.len() >= MAX_ALLOCATIONS {
            return None;
        }
        let region = Region::anonymous(len.next_multiple_of(page_bytes())).ok()?;
        let address = region.whole().as_ptr().expose_provenance();
        regions.insert(address, Arc::new(region));
        Some(address)
    }

    /// Frees the allocation that starts at this address. Returns false if none does. A transfer that still uses the
    /// memory keeps it until the transfer ends.
    pub fn free(&self, address: usize) -> bool {
        // Unmapping large memory takes long, so it happens after the lock is released.
        let freed = self.lock().remove(&address);
        freed.is_some()
    }

    /// The allocation that contains all `len` bytes from `address` on, and the offset of `address` in it.
    pub fn find(&self, address: usize, len: usize) -> Option<(Arc<Region>, u64)> {
        let regions = self.lock();
        let (&start, region) = regions.range(..=address).next_back()?;
        let from = (address - start) as u64;
        let end = from.checked_add(len as u64)?;
        (end <= region.len()).then(|| (Arc::clone(region), from))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, Arc<Region>>> {
        // Every statement here leaves the map consistent, so a poisoned lock is harmless.
        self.regions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_found_by_any_address_in_it_until_it_is_freed() {
        let memory = HostMemory::default();
        let page = page_bytes() as usize;
        let address = memory.alloc(10).expect("a page");
        assert_eq!(address % page, 0);
        let found =
            |address, len| memory.find(address, len).map(|(region, from)| (region.len(), from));
        assert_eq!(found(address, 10), Some((page as u64, 0)));
        assert_eq!(found(address + 100, page - 100), Some((page as u64, 100)));
        assert_eq!(found(address + 100, page - 99), None);
        assert_eq!(found(address, usize::MAX), None);
        assert_eq!(found(address - 1, 1), None);
        let (region, _) = memory.find(address, 1).expect("it is there");
        assert!(!memory.free(address + 1) && memory.free(address) && !memory.free(address));
        assert_eq!(found(address, 1), None);
        region.slice(0, 4).expect("a transfer still holds it").write_from(b"busy");
    }

    #[test]
    fn what_cannot_be_allocated_is_none() {
        let memory = HostMemory::default();
        assert_eq!([0, MAX_ALLOCATION_BYTES + 1, u64::MAX].map(|len| memory.alloc(len)), [None; 3]);
        let all: Vec<usize> = (0..MAX_ALLOCATIONS).map_while(|_| memory.alloc(1)).collect();
        assert_eq!((all.len(), memory.alloc(1)), (MAX_ALLOCATIONS, None));
        assert!(memory.free(all[0]) && memory.alloc(1).is_some());
    }
}
