use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use mooncake_memory::{HeldSlice, Mappings, RawSlice, Region, SliceList};

/// Memory of callers that stays mapped until they say otherwise. Transfers use it in place, and a device that wants to
/// know its memory registers it at the first of them, and not again.
///
/// By address. A region keeps what it is registered with until it is forgotten and the last transfer with it has ended.
#[derive(Debug, Default)]
pub(crate) struct CallersMemory(RwLock<BTreeMap<usize, Arc<Region>>>);

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
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(start, region);
    }

    /// Forgets the memory that begins here.
    pub(crate) fn remove(&self, start: usize) {
        let removed = self.0.write().unwrap_or_else(PoisonError::into_inner).remove(&start);
        // What it is registered with is given back outside of the lock.
        drop(removed);
    }

    /// The pieces of a list. `None` if one of them does not lie within known memory.
    pub(super) fn hold(&self, memory: &SliceList<'_>) -> Option<Vec<HeldSlice>> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if known.is_empty() {
            return None;
        }
        memory.slices().iter().map(|piece| hold(&known, *piece)).collect()
    }
}

fn hold(known: &BTreeMap<usize, Arc<Region>>, piece: RawSlice<'_>) -> Option<HeldSlice> {
    let at = piece.as_ptr().addr();
    let (start, region) = known.range(..=at).next_back()?;
    region.hold((at - start) as u64, piece.len() as u64).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lists_that_lie_within_known_memory_are_held() {
        let regions = [0; 2].map(|_| Arc::new(Region::anonymous(8192).unwrap()));
        let known = CallersMemory::default();
        let [one, other] = &regions;
        let part = |region: &Arc<Region>, from, len| region.whole().sub(from, len).as_ptr().addr();
        let lens = |list: SliceList<'_>| -> Option<Vec<usize>> {
            known.hold(&list).map(|held| held.iter().map(HeldSlice::len).collect())
        };
        let both = || SliceList::from(vec![one.whole().sub(0, 5), other.whole().sub(8190, 2)]);
        assert_eq!(lens(both()), None);
        known.add_region(Arc::clone(one));
        assert_eq!((lens(one.whole().into()), lens(both())), (Some(vec![8192]), None));
        known.add_region(Arc::clone(other));
        assert_eq!(lens(both()), Some(vec![5, 2]));
        let held = known.hold(&both()).unwrap();
        let found: Vec<usize> = held.iter().map(|it| it.raw().as_ptr().addr()).collect();
        assert_eq!(found, [part(one, 0, 5), part(other, 8190, 2)]);
        known.remove(part(one, 0, 1));
        assert_eq!((lens(both()), lens(other.whole().into())), (None, Some(vec![8192])));
        assert_eq!(Arc::strong_count(one), 2, "a transfer holds it still");
        drop(held);
        assert_eq!(Arc::strong_count(one), 1);
    }
}
