//! Slots by name, where several slots may share a name.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// The slots of each name, in the order in which they got it.
#[derive(Debug, Default)]
pub(super) struct SlotsByName(BTreeMap<Arc<str>, Vec<u32>>);

impl SlotsByName {
    pub(super) fn get(&self, name: &str) -> &[u32] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }

    pub(super) fn insert(&mut self, name: &Arc<str>, slot: u32) {
        self.0.entry(Arc::clone(name)).or_default().push(slot);
    }

    pub(super) fn remove(&mut self, name: &str, slot: u32) {
        let Some(slots) = self.0.get_mut(name) else { return };
        slots.retain(|&other| other != slot);
        if slots.is_empty() {
            self.0.remove(name);
        }
    }

    /// All slots: first those of this name, then those of the names that follow, then those from the first name on.
    pub(super) fn all_from(&self, name: &str) -> impl Iterator<Item = u32> {
        let behind = self.0.range::<str, _>((Bound::Included(name), Bound::Unbounded));
        let before = self.0.range::<str, _>((Bound::Unbounded, Bound::Excluded(name)));
        behind.chain(before).flat_map(|(_, slots)| slots).copied()
    }
}
