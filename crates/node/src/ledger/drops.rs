//! Removals from a ledger other than by a write.

use mooncake_types::{Version, limits};

use super::Ledger;
use super::entry::Entry;

/// The effects of a drop.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Offsets of the complete entries that were dropped.
    pub dropped: Vec<u64>,
    /// Tickets of the writers that must stop, since their entries were dropped.
    pub superseded: Vec<u64>,
}

impl Ledger {
    /// Whether there is room for the fence that [`Ledger::drop_version`] may leave. A peer that names one
    /// unknown offset after another must not make the ledger grow without bound.
    #[must_use]
    pub fn may_drop(&self, offset: u64, version: Version) -> bool {
        let is_known = |entry: &Entry| entry.version == version || entry.is_one_byte_fence();
        self.fences < limits::MAX_LEDGER_FENCES || self.entries.get(&offset).is_some_and(is_known)
    }

    /// Drops a version at an offset, if it was written under `grant` or an older one. Readers never find it
    /// there again, even if its writer is still at work or has yet to begin. Newer entries stay.
    pub fn drop_version(&mut self, offset: u64, version: Version, grant: Version) -> Dropped {
        let Some(entry) = self.entries.get(&offset).filter(|entry| entry.version == version) else {
            return self.keep_out(offset, version, grant);
        };
        if entry.grant > grant {
            return Dropped::default();
        }
        let (range, was_complete) = (offset..offset + entry.len, entry.holds(version));
        let fence = entry.fence(entry.len).up_to(grant);
        self.replace(offset, fence);
        let dropped = if was_complete { vec![offset] } else { Vec::new() };
        Dropped { dropped, superseded: self.writers.supersede(&range) }
    }

    /// Fences the offset against writers of a version that have not begun there.
    fn keep_out(&mut self, offset: u64, version: Version, grant: Version) -> Dropped {
        if offset >= self.len() {
            return Dropped::default();
        }
        // One byte is enough, since a writer always takes the whole range.
        let first = offset..offset + 1;
        let is_newer = |at: &u64| self.entries.get(at).is_some_and(|entry| entry.grant >= grant);
        let overlapped = self.overlapped(&first);
        if overlapped.iter().any(is_newer) {
            return Dropped::default();
        }
        let dropped = self.drop_entries(overlapped, &first);
        self.replace(offset, Entry::one_byte_fence(version).up_to(grant));
        Dropped { dropped, superseded: self.writers.supersede(&first) }
    }

    /// Drops every entry. Its range stays fenced against older writers.
    pub fn drop_all(&mut self) -> Dropped {
        let mut dropped = Vec::new();
        self.changes.forget();
        let mut fences = 0;
        for (&offset, entry) in self.entries.iter_mut().filter(|(_, entry)| entry.is_live()) {
            if entry.holds(entry.version) {
                dropped.push(offset);
            }
            *entry = entry.fence(entry.len);
            fences += usize::from(entry.is_one_byte_fence());
        }
        self.fences += fences;
        Dropped { dropped, superseded: self.writers.supersede(&(0..self.len())) }
    }
}
