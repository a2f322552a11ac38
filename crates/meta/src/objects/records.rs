//! Records that only the module `objects` can change. All other modules read them.

use crate::slab::Slab;

/// A [`Slab`] whose records only the module `objects` can change.
#[derive(Debug)]
pub(crate) struct Records<T>(Slab<T>);

impl<T> Default for Records<T> {
    fn default() -> Self {
        Self(Slab::default())
    }
}

impl<T> Records<T> {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// One more than the largest index ever used.
    pub(crate) fn end(&self) -> u32 {
        self.0.end()
    }

    pub(crate) fn get(&self, id: u32) -> Option<&T> {
        self.0.get(id)
    }

    /// All records in the order of their indices.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.0.iter()
    }

    pub(super) fn insert(&mut self, record: T) -> u32 {
        self.0.insert(record)
    }

    pub(super) fn remove(&mut self, id: u32) -> T {
        self.0.remove(id)
    }

    pub(super) fn at_mut(&mut self, id: u32) -> &mut T {
        &mut self.0[id]
    }
}

impl<T> std::ops::Index<u32> for Records<T> {
    type Output = T;

    fn index(&self, id: u32) -> &T {
        &self.0[id]
    }
}
