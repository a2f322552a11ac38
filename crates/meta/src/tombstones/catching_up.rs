//! Segments that are marked behind and catch up: how many of the tombstones that no acknowledgement waited for are left.

use std::collections::BTreeMap;

use mooncake_types::Version;

use super::Tombstones;

/// The segments that catch up, by slot.
#[derive(Debug, Default)]
pub(super) struct CatchingUp(BTreeMap<u32, Owed>);

/// The tombstones of one segment that are left under this grant or an older one.
#[derive(Debug)]
struct Owed {
    until: Version,
    count: usize,
}

impl CatchingUp {
    /// A tombstone that was left under this grant is gone.
    pub(super) fn note_gone(&mut self, slot: u32, grant: Version) {
        if let Some(owed) = self.0.get_mut(&slot)
            && grant <= owed.until
        {
            owed.count -= 1;
        }
    }

    pub(super) fn stop(&mut self, slot: u32) {
        self.0.remove(&slot);
    }
}

impl Tombstones {
    /// A segment begins to catch up. All tombstones that it has were left under this grant or an older one, later ones
    /// will be left under newer grants.
    pub(crate) fn begin_catching_up(&mut self, slot: u32, newest: Version) {
        let owed = Owed { until: newest, count: self.count(slot) };
        self.catching_up.0.insert(slot, owed);
    }

    /// A segment no longer catches up.
    pub(crate) fn stop_catching_up(&mut self, slot: u32) {
        self.catching_up.stop(slot);
    }

    pub(crate) fn is_catching_up(&self, slot: u32) -> bool {
        self.catching_up.0.contains_key(&slot)
    }

    /// Whether all tombstones are gone that a segment had when it began to catch up.
    pub(crate) fn has_caught_up(&self, slot: u32) -> bool {
        self.catching_up.0.get(&slot).is_some_and(|owed| owed.count == 0)
    }

    /// Whether what each segment owes is exactly its older tombstones, if it catches up.
    pub(super) fn counts_what_is_owed(&self) -> bool {
        self.catching_up.0.iter().all(|(slot, owed)| {
            let known = self.by_slot.get(slot).map(|entries| &entries.known);
            let older = known.into_iter().flatten().filter(|(_, entry)| entry.grant <= owed.until);
            older.count() == owed.count
        })
    }
}
