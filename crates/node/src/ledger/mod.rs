//! What lies in a segment: its entries, and the rules of who may write where.

mod change_log;
mod coverage;
mod drops;
mod entry;
mod follow;
mod inventory;
mod learned_checksums;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use mooncake_types::mutation::{Rule, is_broken};
use mooncake_types::{ErrorCode, RangeRead, RangeWrite, Version, limits};

use change_log::ChangeLog;
use entry::is_whole;

pub(crate) use change_log::first_change;
pub use drops::Dropped;
pub use entry::{Entry, EntryState};
pub use follow::FollowAnswer;
pub use inventory::{ChangedEntries, Inventory, ListedEntry};

/// What one segment's memory holds: non-overlapping ranges, each with the grant that it obeys.
///
/// The rules that it keeps:
/// - no byte of a range changes before the entries that overlapped it are gone ([`Ledger::begin`] takes them out);
/// - an entry is complete only after its writers said of every byte that it is in place, and from then on none of its
///   bytes changes;
/// - a range obeys the newest grant that began in it: older ones are refused, and an older writer that is still
///   at work must have stopped before the new bytes land ([`Ledger::clearance`]).
///
/// An entry may be written in parts, by several writers at once, as long as no two of them are in one part.
///
/// A ticket stands for one writer from [`Ledger::begin`] until exactly one of [`Ledger::complete`] and
/// [`Ledger::abandon`].
#[derive(Clone, Debug)]
pub struct Ledger {
    len: u64,
    entries: BTreeMap<u64, Entry>,
    /// How many of the entries are fences of one byte.
    fences: usize,
    writers: BTreeMap<u64, Writer>,
    next_ticket: u64,
    /// Grants up to this one are refused everywhere.
    floor: Option<Version>,
    changes: ChangeLog,
}

#[derive(Clone, Debug)]
struct Writer {
    /// The range of its entry.
    entry: Range<u64>,
    /// The part of it that is its own; all of it, as a rule.
    part: Range<u64>,
    superseded: bool,
}

/// A write that has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begun {
    /// The writer's ticket.
    pub ticket: u64,
    /// The older writers that this one has superseded, to be told to stop.
    pub superseded: Vec<u64>,
    /// Where the entries started that were complete, and are dropped.
    pub dropped: Vec<u64>,
}

/// What a reader finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundEntry {
    /// The grant that the entry was written under.
    pub grant: Version,
    /// One CRC32C for each chunk of what is wanted, if they are known and these are whole chunks of the entry.
    pub checksums: Option<Arc<[u32]>>,
}

/// Whether a writer may change bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clearance {
    /// It may.
    Clear,
    /// An older writer is still at work in its range.
    Wait,
    /// It may not: a newer grant has begun in its range.
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
            writers: BTreeMap::new(),
            next_ticket: 0,
            floor: None,
            changes: ChangeLog::new(),
        }
    }

    /// Numbers changes from `first` on instead of zero, and remembers no more than `most` of them: who followed another
    /// ledger is not to take this one for it.
    pub fn number_changes(&mut self, first: u64, most: usize) {
        self.changes.begin(first, most);
    }

    /// Puts in an entry that was complete when the process ended that had the segment before.
    ///
    /// # Errors
    /// As [`Ledger::begin`] for what is out of bounds, and [`ErrorCode::InvalidWrite`] for what overlaps another entry.
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

    /// Refuses this grant and all older ones from now on, wherever they begin: those that had begun somewhere before the
    /// process ended, whose fences ended with it.
    pub const fn refuse_up_to(&mut self, floor: Option<Version>) {
        self.floor = floor;
    }

    /// Takes a range, or a part of one, for a writer. The first part under a grant takes all of the range: entries that
    /// overlap it are dropped, and writers at work in them superseded. Further parts join it. Bytes of a part that were
    /// in place count as missing again until the part is complete.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidWrite`] if the range does not lie in the segment or in its object, or the part not in the
    /// range, if a part of a complete entry is to be written again, or if the entry would fall into more than
    /// [`limits::MAX_ENTRY_PARTS`] pieces, one for each writer included.
    /// [`ErrorCode::InvalidKey`] for a key out of bounds, [`ErrorCode::InvalidParams`] for attributes that are too long.
    /// [`ErrorCode::InvalidVersion`] if a newer grant has begun in a part of the range, or the same one for another
    /// range or object, or if the whole of the range is to be written again. It may be once the first writer has
    /// abandoned it.
    /// [`ErrorCode::ObjectReplicaBusy`] if another writer of the same grant is at work in the part.
    pub fn begin(&mut self, range: &RangeWrite<'_>) -> Result<Begun, ErrorCode> {
        self.check(range)?;
        let entry = range.offset..range.offset + range.entry_len;
        let start = range.offset + range.from;
        let part = start..start + range.len;
        let (mut superseded, mut dropped) = (Vec::new(), Vec::new());
        if self.is_further_part(range) {
            self.join(range.offset, &part)?;
        } else {
            dropped = self.take(&entry, range)?;
            superseded = self.supersede_writers(&entry);
        }
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.writers.insert(ticket, Writer { entry, part, superseded: false });
        Ok(Begun { ticket, superseded, dropped })
    }

    fn is_further_part(&self, range: &RangeWrite<'_>) -> bool {
        let joined = |entry: &Entry| entry.is_joined_by(range.offset, range);
        !is_whole(range) && self.entries.get(&range.offset).is_some_and(joined)
    }

    /// Adds a writer to an entry that is written in parts.
    fn join(&mut self, offset: u64, part: &Range<u64>) -> Result<(), ErrorCode> {
        let at_work = |writer: &Writer| !writer.superseded && overlap(&writer.part, part);
        if self.writers.values().any(at_work) {
            return Err(ErrorCode::ObjectReplicaBusy);
        }
        let entry = self.entries.get_mut(&offset).expect("it was found a moment ago");
        entry.begin_part(&(part.start - offset..part.end - offset))
    }

    /// Makes a new entry in the place of all that overlap it, and names those of them that were complete.
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
        let writer = self.writers.get(&ticket).expect("the ticket is open");
        if writer.superseded {
            return Clearance::Superseded;
        }
        let blocked = self
            .writers
            .values()
            .any(|other| other.superseded && overlap(&other.part, &writer.part));
        if blocked && !is_broken(Rule::OlderWritersStopFirst) {
            Clearance::Wait
        } else {
            Clearance::Clear
        }
    }

    /// What a writer is at work in, or was before it was superseded.
    ///
    /// # Panics
    /// If the ticket was completed or abandoned.
    #[must_use]
    pub fn part_of(&self, ticket: u64) -> &Range<u64> {
        &self.writers.get(&ticket).expect("the ticket is open").part
    }

    /// Where the entry starts that a writer is at work in, or was before it was superseded.
    ///
    /// # Panics
    /// If the ticket was completed or abandoned.
    #[must_use]
    pub fn offset_of(&self, ticket: u64) -> u64 {
        self.writers.get(&ticket).expect("the ticket is open").entry.start
    }

    /// The entry that starts here, if all of it can be read.
    #[must_use]
    pub fn complete_at(&self, offset: u64) -> Option<&Entry> {
        self.entries.get(&offset).filter(|entry| entry.state == EntryState::Complete)
    }

    /// The entry of a writer, if it is complete once the writer's part is.
    ///
    /// # Panics
    /// If the ticket was completed or abandoned.
    #[must_use]
    pub fn finished_by(&self, ticket: u64) -> Option<&Entry> {
        let writer = self.writers.get(&ticket).expect("the ticket is open");
        let entry = self.entries.get(&writer.entry.start).filter(|_| !writer.superseded)?;
        let from = writer.entry.start;
        entry.is_finished_by(writer.part.start - from..writer.part.end - from).then_some(entry)
    }

    /// Whether a writer was told to stop: a newer grant has begun in its range, or what it writes was dropped.
    ///
    /// # Panics
    /// If the ticket was completed or abandoned.
    #[must_use]
    pub fn is_superseded(&self, ticket: u64) -> bool {
        self.writers.get(&ticket).expect("the ticket is open").superseded
    }

    /// Whether an entry that starts here is being written under that grant.
    #[must_use]
    pub fn is_written(&self, offset: u64, grant: Version) -> bool {
        let is_one = |entry: &Entry| entry.state == EntryState::Writing && entry.grant == grant;
        self.entries.get(&offset).is_some_and(is_one)
    }

    /// Ends a write: all bytes of its part are in place. `checksums` is kept if the part is the whole entry and there is
    /// one CRC32C per chunk.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidVersion`] if a newer grant has begun in the range.
    ///
    /// # Panics
    /// If the ticket was completed or abandoned before.
    pub fn complete(&mut self, ticket: u64, checksums: Vec<u32>) -> Result<(), ErrorCode> {
        let writer = self.writers.remove(&ticket).expect("the ticket is open");
        if writer.superseded {
            return Err(ErrorCode::InvalidVersion);
        }
        let from = writer.entry.start;
        let part = writer.part.start - from..writer.part.end - from;
        self.written_entry(&writer).complete(part, checksums);
        Ok(())
    }

    /// Ends a write that failed: the writer changes nothing any more.
    ///
    /// # Panics
    /// If the ticket was completed or abandoned before.
    pub fn abandon(&mut self, ticket: u64) {
        let writer = self.writers.remove(&ticket).expect("the ticket is open");
        if !writer.superseded {
            self.written_entry(&writer).abandon();
        }
    }

    /// Whether that stripe of that version lies there, complete, and the bytes wanted are in it; gives the grant that they were
    /// written under, and the checksums of the bytes wanted, if they are known and these are whole chunks.
    ///
    /// # Errors
    /// [`ErrorCode::ObjectNotFound`] if it does not lie there, [`ErrorCode::InvalidParams`] if it does and
    /// the bytes wanted are none or run past its end.
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

    /// Whether that version still lies there, complete, as it was written under that grant: a copy that came later to
    /// the same place may be of another part of the object.
    #[must_use]
    pub fn still_holds(&self, offset: u64, version: Version, grant: Version) -> bool {
        let found = self.entries.get(&offset);
        found.is_some_and(|entry| entry.holds(version) && entry.grant == grant)
    }

    /// As [`Ledger::still_holds`]; of what it does, a reader has computed the checksums of `len` bytes from `from` on, which are
    /// kept for the next.
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

    /// Whether nothing can be read here and nothing is being written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.entries.values().any(Entry::is_live)
    }

    /// All entries by their offsets, in order.
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

    /// Puts an entry where nothing else overlaps it, or in the place of one as long.
    fn replace(&mut self, offset: u64, entry: Entry) {
        self.changes.note(offset);
        self.insert(offset, entry);
    }

    fn insert(&mut self, offset: u64, entry: Entry) {
        self.fences += usize::from(entry.is_one_byte_fence());
        let before = self.entries.insert(offset, entry);
        self.fences -= usize::from(before.is_some_and(|entry| entry.is_one_byte_fence()));
    }

    /// Drops what lies in a range, and names what of it was complete.
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

    /// Drops an entry; what of its range lies outside of `wanted` stays fenced against older grants.
    fn drop_entry(&mut self, offset: u64, wanted: &Range<u64>) {
        self.changes.note(offset);
        let entry = self.entries.remove(&offset).expect("it was found a moment ago");
        self.fences -= usize::from(entry.is_one_byte_fence());
        let end = offset + entry.len;
        if offset < wanted.start {
            self.insert(offset, entry.fence(wanted.start - offset));
        }
        if end > wanted.end {
            self.insert(wanted.end, entry.fence(end - wanted.end));
        }
    }

    /// Marks the writers of entries in a range that were not superseded before, and names them.
    fn supersede_writers(&mut self, wanted: &Range<u64>) -> Vec<u64> {
        let mut superseded = Vec::new();
        for (&ticket, writer) in &mut self.writers {
            if !writer.superseded && overlap(&writer.entry, wanted) {
                writer.superseded = true;
                superseded.push(ticket);
            }
        }
        superseded
    }

    fn written_entry(&mut self, writer: &Writer) -> &mut Entry {
        self.changes.note(writer.entry.start);
        let entry = self.entries.get_mut(&writer.entry.start);
        entry.expect("a writer that was not superseded has its entry")
    }
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}
