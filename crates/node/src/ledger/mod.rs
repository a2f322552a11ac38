//! The ledger of a segment: its entries, and the rules for writers.

mod change_log;
mod coverage;
mod drops;
mod entry;
mod follow;
mod inventory;
mod learned_checksums;
mod writers;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use mooncake_types::mutation::{Rule, is_broken};
use mooncake_types::{ErrorCode, RangeRead, RangeWrite, Version, limits};

use change_log::ChangeLog;
use entry::is_whole;
use writers::{Writer, Writers};

pub(crate) use change_log::first_change;
pub use drops::Dropped;
pub use entry::{Entry, EntryState};
pub use follow::FollowAnswer;
pub use inventory::{ChangedEntries, Inventory, ListedEntry};

/// The record of one segment's memory: non-overlapping ranges, each with the grant that it obeys.
///
/// The rules that it keeps:
/// - no byte of a range changes before the entries that overlap it are removed ([`Ledger::begin`] removes them);
/// - an entry is complete only once its writers have reported every byte as in place, and then none of its bytes
///   changes;
/// - a range obeys the newest grant that began in it: older grants are refused, and an older writer that is still at
///   work must stop before new bytes are written ([`Ledger::clearance`]).
///
/// Several writers may write an entry in parts at the same time, if their parts do not overlap.
///
/// A ticket identifies one writer from [`Ledger::begin`] until exactly one of [`Ledger::complete`] and
/// [`Ledger::abandon`].
#[derive(Clone, Debug)]
pub struct Ledger {
    len: u64,
    entries: BTreeMap<u64, Entry>,
    /// How many of the entries are fences.
    fences: usize,
    writers: Writers,
    /// Grants up to this one are refused in the whole segment.
    floor: Option<Version>,
    changes: ChangeLog,
}

/// A write that has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BegunWrite {
    /// The writer's ticket.
    pub ticket: u64,
    /// Tickets of the older writers that this one superseded. The caller must tell them to stop.
    pub superseded: Vec<u64>,
    /// Offsets of the complete entries that were dropped.
    pub dropped: Vec<u64>,
}

/// The entry that a reader finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundEntry {
    /// The grant that the entry was written under.
    pub grant: Version,
    /// One CRC32C for each requested chunk, if all are known and the request is for whole chunks of the entry.
    pub checksums: Option<Arc<[u32]>>,
}

/// Whether a writer may change bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clearance {
    /// It may.
    Clear,
    /// An older writer is still at work in its range.
    Wait,
    /// It may not: a newer grant has begun in its range, or its entry was dropped.
    Superseded,
}

impl Ledger {
    /// The ledger of an empty segment of `len` bytes.
    #[must_use]
    pub const fn new(len: u64) -> Self {
        Self {
            len,
            entries: BTreeMap::new(),
            fences: 0,
            writers: Writers::new(),
            floor: None,
            changes: ChangeLog::new(),
        }
    }

    /// Numbers changes from `first` on instead of zero, and keeps at most `most` of them. Followers of another ledger
    /// must not take this one for it.
    pub fn number_changes(&mut self, first: u64, most: usize) {
        self.changes.begin(first, most);
    }

    /// Adds an entry that was complete when the segment's earlier process ended.
    ///
    /// # Errors
    /// As [`Ledger::begin`] for values out of bounds, and [`ErrorCode::InvalidWrite`] for an overlap with another
    /// entry.
    pub fn restore(
        &mut self,
        range: &RangeWrite<'_>,
        checksums: Option<Arc<[u32]>>,
    ) -> Result<(), ErrorCode> {
        self.check(range)?;
        let taken = self.overlapped(&(range.offset..range.offset + range.entry_len));
        if !is_whole(range) || !taken.is_empty() {
            return Err(ErrorCode::InvalidWrite);
        }
        self.entries.insert(range.offset, Entry::restored(range, checksums));
        Ok(())
    }

    /// Refuses this grant and all older ones everywhere from now on. This replaces the fences of grants that had
    /// begun before the earlier process ended, since these fences ended with it.
    pub const fn refuse_up_to(&mut self, floor: Option<Version>) {
        self.floor = floor;
    }

    /// Takes a range, or a part of one, for a writer. The first part under a grant takes the whole range: it drops
    /// the entries that overlap it, and supersedes their writers. Further parts join the new entry. Bytes of a part
    /// that were in place count as missing again until the part is complete.
    ///
    /// # Errors
    /// - [`ErrorCode::InvalidWrite`] if the range exceeds the segment or its object, or if the part exceeds the
    ///   range.
    /// - [`ErrorCode::InvalidWrite`] if a part of a complete entry is to be written again.
    /// - [`ErrorCode::InvalidWrite`] if the entry would have more than [`limits::MAX_ENTRY_PARTS`] pieces, one for
    ///   each writer included.
    /// - [`ErrorCode::InvalidKey`] for a key out of bounds, [`ErrorCode::InvalidParams`] for attributes that are too
    ///   long.
    /// - [`ErrorCode::InvalidVersion`] if a newer grant has begun in the range, or the same grant for another range
    ///   or object.
    /// - [`ErrorCode::InvalidVersion`] if the same grant is to write the whole range again. It may do so once its
    ///   first writer has abandoned it.
    /// - [`ErrorCode::ObjectReplicaBusy`] if another writer of the same grant is at work in the part.
    pub fn begin(&mut self, range: &RangeWrite<'_>) -> Result<BegunWrite, ErrorCode> {
        self.check(range)?;
        let entry = range.offset..range.offset + range.entry_len;
        let start = range.offset + range.from;
        let part = start..start + range.len;
        let (mut superseded, mut dropped) = (Vec::new(), Vec::new());
        if self.is_further_part(range) {
            self.join(range.offset, &part)?;
        } else {
            dropped = self.take(&entry, range)?;
            superseded = self.writers.supersede(&entry);
        }
        let ticket = self.writers.insert(entry, part);
        Ok(BegunWrite { ticket, superseded, dropped })
    }

    fn is_further_part(&self, range: &RangeWrite<'_>) -> bool {
        let joined = |entry: &Entry| entry.is_joined_by(range.offset, range);
        !is_whole(range) && self.entries.get(&range.offset).is_some_and(joined)
    }

    /// Adds a writer to an entry that is written in parts.
    fn join(&mut self, offset: u64, part: &Range<u64>) -> Result<(), ErrorCode> {
        if self.writers.is_at_work(part) {
            return Err(ErrorCode::ObjectReplicaBusy);
        }
        let entry = self.entries.get_mut(&offset).expect("it was found a moment ago");
        entry.begin_part(&(part.start - offset..part.end - offset))
    }

    /// Replaces all entries that overlap a range by a new one. Returns the offsets of those that were complete.
    fn take(&mut self, wanted: &Range<u64>, range: &RangeWrite<'_>) -> Result<Vec<u64>, ErrorCode> {
        let overlapped = self.overlapped(wanted);
        let refusal = overlapped.iter().find_map(|at| self.entries[at].refusal(*at, range));
        if let Some(code) = refusal {
            return Err(code);
        }
        let mut overlapped = overlapped;
        if is_broken(Rule::OverlappedEntriesAreDropped) {
            overlapped.retain(|offset| *offset == range.offset);
        }
        let dropped = self.drop_entries(overlapped, wanted);
        self.replace(range.offset, Entry::writing(range));
        Ok(dropped)
    }

    /// Whether the writer may change bytes now.
    ///
    /// # Panics
    /// If the ticket was completed or abandoned.
    #[must_use]
    pub fn clearance(&self, ticket: u64) -> Clearance {
        let writer = self.writers.get(ticket);
        if writer.is_superseded {
            return Clearance::Superseded;
        }
        if self.writers.is_blocked(&writer.part) && !is_broken(Rule::OlderWritersStopFirst) {
            Clearance::Wait
        } else {
            Clearance::Clear
        }
    }

    /// The part that a writer writes, or wrote before it was superseded.
    ///
    /// # Panics
    /// If the ticket was completed or abandoned.
    #[must_use]
    pub fn part_of(&self, ticket: u64) -> &Range<u64> {
        &self.writers.get(ticket).part
    }

    /// The offset of the entry that a writer writes, or wrote before it was superseded.
    ///
    /// # Panics
    /// If the ticket was completed or abandoned.
    #[must_use]
    pub fn offset_of(&self, ticket: u64) -> u64 {
        self.writers.get(ticket).entry.start
    }

    /// The entry that starts here, if it is complete.
    #[must_use]
    pub fn complete_at(&self, offset: u64) -> Option<&Entry> {
        self.entries.get(&offset).filter(|entry| entry.state == EntryState::Complete)
    }

    /// The entry of a writer, if it is complete once the writer's part is. `None` if the writer was superseded.
    ///
    /// # Panics
    /// If the ticket was completed or abandoned.
    #[must_use]
    pub fn finished_by(&self, ticket: u64) -> Option<&Entry> {
        let writer = self.writers.get(ticket);
        let entry = self.entries.get(&writer.entry.start).filter(|_| !writer.is_superseded)?;
        let from = writer.entry.start;
        entry.is_finished_by(writer.part.start - from..writer.part.end - from).then_some(entry)
    }

    /// Whether a writer was superseded: a newer grant has begun in its range, or its entry was dropped.
    ///
    /// # Panics
    /// If the ticket was completed or abandoned.
    #[must_use]
    pub fn is_superseded(&self, ticket: u64) -> bool {
        self.writers.get(ticket).is_superseded
    }

    /// Whether an entry that starts here is being written under that grant.
    #[must_use]
    pub fn is_written(&self, offset: u64, grant: Version) -> bool {
        let is_one = |entry: &Entry| entry.state == EntryState::Writing && entry.grant == grant;
        self.entries.get(&offset).is_some_and(is_one)
    }

    /// Ends a write: all bytes of its part are in place. Keeps `checksums` if the part is the whole entry and there
    /// is one CRC32C per chunk.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidVersion`] if the writer was [superseded](Self::is_superseded).
    ///
    /// # Panics
    /// If the ticket was completed or abandoned before.
    pub fn complete(&mut self, ticket: u64, checksums: Vec<u32>) -> Result<(), ErrorCode> {
        let writer = self.writers.remove(ticket);
        if writer.is_superseded {
            return Err(ErrorCode::InvalidVersion);
        }
        let from = writer.entry.start;
        let part = writer.part.start - from..writer.part.end - from;
        self.written_entry(&writer).complete(part, checksums);
        Ok(())
    }

    /// Ends a write that failed: the writer changes no more bytes.
    ///
    /// # Panics
    /// If the ticket was completed or abandoned before.
    pub fn abandon(&mut self, ticket: u64) {
        let writer = self.writers.remove(ticket);
        if !writer.is_superseded {
            self.written_entry(&writer).abandon();
        }
    }

    /// Finds the requested bytes in a complete entry with this version and object offset. Returns the grant of the
    /// entry. Also returns the checksums, if all are known and the request is for whole chunks.
    ///
    /// # Errors
    /// [`ErrorCode::ObjectNotFound`] if there is no such entry, [`ErrorCode::InvalidParams`] if there is, but the
    /// requested bytes are none or run past its end.
    pub fn read(&self, range: &RangeRead) -> Result<FoundEntry, ErrorCode> {
        let found = self.entries.get(&range.offset);
        let is_wanted = |entry: &&Entry| {
            entry.holds(range.version) && entry.object_offset == range.object_offset
        };
        let held = found.filter(is_wanted);
        let entry = held.ok_or(ErrorCode::ObjectNotFound)?;
        let end = range.from.checked_add(range.len).filter(|&end| end <= entry.len);
        if end.is_none() || range.len == 0 {
            return Err(ErrorCode::InvalidParams);
        }
        Ok(FoundEntry { grant: entry.grant, checksums: entry.checksums_of(range.from, range.len) })
    }

    /// Whether the complete entry that starts here still has this version and grant. A later copy of the version to
    /// the same offset has another grant, and may be of another part of the object.
    #[must_use]
    pub fn still_holds(&self, offset: u64, version: Version, grant: Version) -> bool {
        let found = self.entries.get(&offset);
        found.is_some_and(|entry| entry.holds(version) && entry.grant == grant)
    }

    /// As [`Ledger::still_holds`]. If the entry is still there, it also keeps the checksums that a reader computed
    /// for `len` bytes from `from` on.
    pub fn learn_checksums(
        &mut self,
        (offset, version, grant): (u64, Version, Version),
        (from, len): (u64, u64),
        checksums: &[u32],
    ) -> bool {
        let found = self.entries.get_mut(&offset);
        let held = found.filter(|entry| entry.holds(version) && entry.grant == grant);
        held.map(|entry| entry.learn_checksums(from, len, checksums)).is_some()
    }

    /// Whether no entry can be read, and none is being written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.entries.values().any(Entry::is_live)
    }

    /// All entries with their offsets, in order.
    pub fn entries(&self) -> impl Iterator<Item = (u64, &Entry)> {
        self.entries_from(0)
    }

    /// The entries that start at `from` or after it.
    fn entries_from(&self, from: u64) -> impl Iterator<Item = (u64, &Entry)> {
        self.entries.range(from..).map(|(&offset, entry)| (offset, entry))
    }

    fn check(&self, range: &RangeWrite<'_>) -> Result<(), ErrorCode> {
        let inside = |from: u64, len: u64, bound: u64| {
            from.checked_add(len).is_some_and(|end| end <= bound) && len > 0
        };
        let is_placed = inside(range.offset, range.entry_len, self.len)
            && inside(range.object_offset, range.entry_len, range.object_len)
            && inside(range.from, range.len, range.entry_len);
        if !is_placed {
            return Err(ErrorCode::InvalidWrite);
        }
        if range.grant < range.version || Some(range.grant) <= self.floor {
            return Err(ErrorCode::InvalidVersion);
        }
        if range.key.is_empty() || range.key.len() > limits::MAX_KEY_BYTES {
            return Err(ErrorCode::InvalidKey);
        }
        if range.attributes.len() > limits::MAX_ATTRIBUTES_BYTES {
            return Err(ErrorCode::InvalidParams);
        }
        Ok(())
    }

    /// Length of the segment in bytes.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Inserts an entry where no other overlaps it, or in the place of one with the same length.
    fn replace(&mut self, offset: u64, entry: Entry) {
        self.changes.note(offset);
        self.insert(offset, entry);
    }

    fn insert(&mut self, offset: u64, entry: Entry) {
        self.fences += usize::from(entry.is_fence());
        let before = self.entries.insert(offset, entry);
        self.fences -= usize::from(before.is_some_and(|entry| entry.is_fence()));
    }

    /// Takes an entry out, whose bytes another entry takes.
    fn forget(&mut self, offset: u64) -> Entry {
        self.changes.note(offset);
        let entry = self.entries.remove(&offset).expect("it was found a moment ago");
        self.fences -= usize::from(entry.is_fence());
        entry
    }

    /// Drops these entries, all of which overlap a range. Returns the offsets of those that were complete.
    fn drop_entries(&mut self, overlapped: Vec<u64>, wanted: &Range<u64>) -> Vec<u64> {
        let mut dropped = Vec::new();
        for offset in overlapped {
            if self.entries[&offset].state == EntryState::Complete {
                dropped.push(offset);
            }
            self.drop_entry(offset, wanted);
        }
        dropped
    }

    /// Offsets of the entries that overlap a range.
    fn overlapped(&self, wanted: &Range<u64>) -> Vec<u64> {
        let before_end = self.entries.range(..wanted.end).rev();
        before_end
            .take_while(|(offset, entry)| **offset + entry.len > wanted.start)
            .map(|(&offset, _)| offset)
            .collect()
    }

    /// Drops an entry. Its bytes outside of `wanted` stay fenced against older grants.
    fn drop_entry(&mut self, offset: u64, wanted: &Range<u64>) {
        let entry = self.forget(offset);
        let end = offset + entry.len;
        if offset < wanted.start {
            self.insert(offset, entry.fence(wanted.start - offset));
        }
        if end > wanted.end {
            self.insert(wanted.end, entry.fence(end - wanted.end));
        }
    }

    fn written_entry(&mut self, writer: &Writer) -> &mut Entry {
        self.changes.note(writer.entry.start);
        let entry = self.entries.get_mut(&writer.entry.start);
        entry.expect("a writer that was not superseded has its entry")
    }
}
