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
        let fence = Entry::one_byte_fence(version).up_to(grant);
        if self.fences >= limits::MAX_LEDGER_FENCES {
            return self.keep_out_widely(offset, overlapped.first().copied(), fence);
        }
        let dropped = self.drop_entries(overlapped, &first);
        self.replace(offset, fence);
        Dropped { dropped, superseded: self.writers.supersede(&first) }
    }

    /// As [`keep_out`](Self::keep_out), but fences more than the offset, so that the ledger hardly grows: a peer may
    /// name one unknown offset after another. The fence takes the whole entry that lies there, or joins the fence
    /// beside the offset. Only between two other entries it is a new one. A writer with an older grant that has not
    /// begun in the wider range is refused, and asks the master for another range.
    fn keep_out_widely(&mut self, offset: u64, there: Option<u64>, fence: Entry) -> Dropped {
        if let Some(start) = there {
            let entry = &self.entries[&start];
            let (range, was_complete) = (start..start + entry.len, entry.holds(entry.version));
            let fence = entry.fence(entry.len).up_to(fence.grant);
            self.replace(start, fence);
            let dropped = if was_complete { vec![start] } else { Vec::new() };
            return Dropped { dropped, superseded: self.writers.supersede(&range) };
        }
        let before = self.entries.range(..offset).next_back();
        let after = self.entries.range(offset..).next();
        let (start, end, grant) = match (before, after) {
            (Some((&start, it)), _) if it.is_fence() => (start, offset + 1, it.grant),
            (_, Some((&start, it))) if it.is_fence() => (offset, start + it.len, it.grant),
            _ => (offset, offset + 1, fence.grant),
        };
        if end > offset + 1 {
            let after = self.entries.range(offset..).next().map(|(&start, _)| start);
            self.forget(after.expect("the fence is there"));
        }
        self.replace(start, fence.fence(end - start).up_to(grant));
        Dropped::default()
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
            fences += usize::from(entry.is_fence());
        }
        self.fences += fences;
        Dropped { dropped, superseded: self.writers.supersede(&(0..self.len())) }
    }
}
