//! What is taken out of a ledger other than by a write.

use mooncake_types::{Version, limits};

use super::Ledger;
use super::entry::Entry;

/// What a drop did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Where the entries started that were complete.
    pub dropped: Vec<u64>,
    /// The writers that must stop: what they write is not wanted any more.
    pub superseded: Vec<u64>,
}

impl Ledger {
    /// Whether there is room for what [`Ledger::drop_version`] may leave: a peer that names one unknown place after another
    /// must not make the ledger grow without bound.
    #[must_use]
    pub fn may_drop(&self, offset: u64, version: Version) -> bool {
        let is_known = |entry: &Entry| entry.version == version || entry.is_one_byte_fence();
        self.fences < limits::MAX_LEDGER_FENCES || self.entries.get(&offset).is_some_and(is_known)
    }

    /// Drops that version at that place, as it was written under this grant or an older one: it is not found there any
    /// more, and never will be if its writer is still at work, or is yet to come. What is newer stays.
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
        Dropped { dropped, superseded: self.supersede_writers(&range) }
    }

    /// Keeps the writers of a version out that have not begun there.
    fn keep_out(&mut self, offset: u64, version: Version, grant: Version) -> Dropped {
        if offset >= self.len() {
            return Dropped::default();
        }
        // One byte is enough: nobody takes a part of a range.
        let first = offset..offset + 1;
        let is_newer = |at: &u64| self.entries.get(at).is_some_and(|entry| entry.grant >= grant);
        let overlapped = self.overlapped(&first);
        if overlapped.iter().any(is_newer) {
            return Dropped::default();
        }
        let dropped = self.drop_entries(overlapped, &first);
        self.replace(offset, Entry::one_byte_fence(version).up_to(grant));
        Dropped { dropped, superseded: self.supersede_writers(&first) }
    }

    /// Drops every entry; older writers are still kept out of their ranges.
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
        Dropped { dropped, superseded: self.supersede_writers(&(0..self.len())) }
    }
}
