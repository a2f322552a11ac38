use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use mooncake_memory::{
    DeviceRegion, HeldMemory, Mappings, Place, PlacedSlice, RawSlice, Region, SliceList,
};

/// Memory of callers, of the host and of GPUs, that stays where it is until they say otherwise. Transfers use it in place,
/// and a device that wants to know its memory registers it at the first of them, and not again.
///
/// By address: those of GPUs are not used for memory of the host. A region keeps what it is registered with until it is
/// forgotten and the last transfer with it has ended.
#[derive(Debug, Default)]
pub(crate) struct CallersMemory(RwLock<BTreeMap<usize, KnownRegion>>);

#[derive(Debug)]
enum KnownRegion {
    Host(Arc<Region>),
    Device(Arc<DeviceRegion>),
}

impl CallersMemory {
    /// Knows memory from now on. Memory that this process cannot read and write is used as if it were not known: the
    /// error of a copy is only the call's, that of a provider may be the process's.
    pub(crate) fn add(&self, memory: RawSlice<'static>) {
        let start = memory.as_ptr().addr();
        let access = Mappings::read().access(start as u64, (start + memory.len()) as u64);
        let region = Region::lent(memory, Box::new(())).ok();
        if let Some(region) = region.filter(|_| access.read && access.write) {
            self.add_region(Arc::new(region));
        }
    }

    /// As [`CallersMemory::add`], for a region that this process can read and write.
    pub(crate) fn add_region(&self, region: Arc<Region>) {
        let start = region.whole().as_ptr().addr();
        self.insert(start, KnownRegion::Host(region));
    }

    /// As [`CallersMemory::add`], for memory of a device.
    pub(crate) fn add_device(&self, region: Arc<DeviceRegion>) {
        self.insert(region.address(), KnownRegion::Device(region));
    }

    fn insert(&self, start: usize, region: KnownRegion) {
        let known = self.0.write().unwrap_or_else(PoisonError::into_inner).insert(start, region);
        // As in `remove`.
        drop(known);
    }

    /// Forgets the memory that begins here.
    pub(crate) fn remove(&self, start: usize) {
        let removed = self.0.write().unwrap_or_else(PoisonError::into_inner).remove(&start);
        // What it is registered with is given back outside of the lock.
        drop(removed);
    }

    /// The pieces of a list. `None` if one of them does not lie within known memory.
    pub(super) fn hold(&self, memory: &SliceList<'_>) -> Option<Vec<HeldMemory>> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if known.is_empty() {
            return None;
        }
        memory.pieces().map(|piece| hold(&known, &piece)).collect()
    }
}

fn hold(known: &BTreeMap<usize, KnownRegion>, piece: &PlacedSlice<'_>) -> Option<HeldMemory> {
    let (at, len) = (piece.addr(), piece.len());
    let (start, region) = known.range(..=at).next_back()?;
    match (region, piece.place()) {
        (KnownRegion::Host(region), Place::Host) => {
            Some(region.hold((at - start) as u64, len as u64).ok()?.into())
        }
        (KnownRegion::Device(region), Place::Device(ordinal)) if region.ordinal() == ordinal => {
            region.hold(at, len).map(HeldMemory::Device)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use mooncake_device::device_region;
    use mooncake_device::testing::DeviceMemory;
    use mooncake_memory::Buffer;

    use super::*;
    use crate::tests::devices::turn;

    fn first_byte(memory: &HeldMemory) -> usize {
        match memory {
            HeldMemory::Host(slice) => slice.raw().as_ptr().addr(),
            HeldMemory::Device(slice) => slice.address(),
        }
    }

    #[test]
    fn memory_of_a_device_is_held_for_lists_of_that_device() {
        let _turn = turn();
        let (known, memory, other) =
            (CallersMemory::default(), DeviceMemory::new(1, 4096), Buffer::zeroed(16));
        let start = memory.address() as usize;
        let held = |list: SliceList<'_>| -> Option<Vec<(usize, usize)>> {
            let held = known.hold(&list)?;
            Some(held.iter().map(|it| (first_byte(it) - start, it.len())).collect())
        };
        let part = |from, len| SliceList::from(memory.slice(from, len));
        assert_eq!(held(part(16, 16)), None);
        known.add_device(Arc::new(device_region(1, start, 2048)));
        assert_eq!(held(part(16, 16)), Some(vec![(16, 16)]));
        assert_eq!(held(part(2040, 9)), None, "it ends before");
        let both: SliceList<'_> = [memory.slice(0, 8), other.raw().into()].into_iter().collect();
        assert_eq!(held(both), None);
        known.add_device(Arc::new(device_region(2, start, 2048)));
        assert_eq!(held(part(16, 16)), None, "it is memory of another device");
        known.remove(start);
        assert_eq!(held(part(16, 16)), None);
    }

    #[test]
    fn only_lists_that_lie_within_known_memory_are_held() {
        let regions = [0; 2].map(|_| Arc::new(Region::anonymous(8192).unwrap()));
        let known = CallersMemory::default();
        let [one, other] = &regions;
        let part = |region: &Arc<Region>, from, len| region.whole().sub(from, len).as_ptr().addr();
        let lens = |list: SliceList<'_>| -> Option<Vec<usize>> {
            known.hold(&list).map(|held| held.iter().map(HeldMemory::len).collect())
        };
        let both = || SliceList::from(vec![one.whole().sub(0, 5), other.whole().sub(8190, 2)]);
        assert_eq!(lens(both()), None);
        known.add_region(Arc::clone(one));
        assert_eq!((lens(one.whole().into()), lens(both())), (Some(vec![8192]), None));
        known.add_region(Arc::clone(other));
        assert_eq!(lens(both()), Some(vec![5, 2]));
        let held = known.hold(&both()).unwrap();
        let found: Vec<usize> = held.iter().map(first_byte).collect();
        assert_eq!(found, [part(one, 0, 5), part(other, 8190, 2)]);
        known.remove(part(one, 0, 1));
        assert_eq!((lens(both()), lens(other.whole().into())), (None, Some(vec![8192])));
        assert_eq!(Arc::strong_count(one), 2, "a transfer holds it still");
        drop(held);
        assert_eq!(Arc::strong_count(one), 1);
    }
}
