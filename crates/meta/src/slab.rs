//! Records at stable indices. They lie in pages: a slab grows by one page and copies no record.

use crate::touched::touch;

const PAGE: usize = 1024;

/// The index that means "none".
pub(crate) const NONE: u32 = u32::MAX;

/// A slab of `T`. An index is reused after its record was removed.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    /// Pages of a fixed length, so that an index into a page needs no check of that length.
    pages: Vec<Box<[SlabSlot<T>; PAGE]>>,
    first_free: u32,
    /// One more than the largest index ever used.
    end: u32,
    len: usize,
}

#[derive(Debug)]
enum SlabSlot<T> {
    Used(T),
    Free { next: u32 },
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { pages: Vec::new(), first_free: NONE, end: 0, len: 0 }
    }
}

impl<T> Slab<T> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// One more than the largest index ever used.
    pub(crate) fn end(&self) -> u32 {
        self.end
    }

    pub(crate) fn insert(&mut self, value: T) -> u32 {
        self.len += 1;
        if self.first_free != NONE {
            let id = self.first_free;
            let slot = self.slot_mut(id);
            let SlabSlot::Free { next } = *slot else {
                panic!("slot {id} on the free list is in use")
            };
            *slot = SlabSlot::Used(value);
            self.first_free = next;
            return id;
        }
        let id = self.end;
        assert!(id < NONE - 1, "the slab is full");
        if (id as usize).is_multiple_of(PAGE) {
            self.pages.push(empty_page());
        }
        *self.slot_mut(id) = SlabSlot::Used(value);
        self.end += 1;
        id
    }

    pub(crate) fn remove(&mut self, id: u32) -> T {
        let next = self.first_free;
        let slot = std::mem::replace(self.slot_mut(id), SlabSlot::Free { next });
        let SlabSlot::Used(value) = slot else { panic!("slot {id} is removed twice") };
        self.first_free = id;
        self.len -= 1;
        value
    }

    pub(crate) fn get(&self, id: u32) -> Option<&T> {
        touch();
        match &self.pages.get(id as usize / PAGE)?[id as usize % PAGE] {
            SlabSlot::Used(value) => Some(value),
            SlabSlot::Free { .. } => None,
        }
    }

    /// All records in the order of their indices.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..self.end()).filter_map(|id| Some((id, self.get(id)?)))
    }

    fn slot_mut(&mut self, id: u32) -> &mut SlabSlot<T> {
        touch();
        &mut self.pages[id as usize / PAGE][id as usize % PAGE]
    }
}

/// Makes an empty page on the heap. No page is ever built on the stack.
fn empty_page<T>() -> Box<[SlabSlot<T>; PAGE]> {
    let slots: Box<[SlabSlot<T>]> = (0..PAGE).map(|_| SlabSlot::Free { next: NONE }).collect();
    slots.try_into().ok().expect("a page has its length")
}

impl<T> std::ops::Index<u32> for Slab<T> {
    type Output = T;

    fn index(&self, id: u32) -> &T {
        touch();
        match &self.pages[id as usize / PAGE][id as usize % PAGE] {
            SlabSlot::Used(value) => value,
            SlabSlot::Free { .. } => panic!("slot {id} is empty"),
        }
    }
}

impl<T> std::ops::IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, id: u32) -> &mut T {
        match self.slot_mut(id) {
            SlabSlot::Used(value) => value,
            SlabSlot::Free { .. } => panic!("slot {id} is empty"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_are_stable_and_reused_last_removed_first() {
        let mut slab = Slab::default();
        let ids: Vec<u32> = (0..3000).map(|i| slab.insert(i)).collect();
        assert_eq!(ids, (0..3000).collect::<Vec<u32>>());
        assert_eq!((slab.remove(17), slab.remove(2000)), (17, 2000));
        assert_eq!((slab.insert(1), slab.insert(2)), (2000, 17));
        assert_eq!((slab[17], slab[2000], slab[2999]), (2, 1, 2999));
        assert_eq!((slab.len(), slab.end()), (3000, 3000));
    }

    #[test]
    #[should_panic(expected = "removed twice")]
    fn removing_twice_is_a_broken_invariant() {
        let mut slab = Slab::default();
        let id = slab.insert(());
        slab.remove(id);
        slab.remove(id);
    }
}
