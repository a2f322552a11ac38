use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use mooncake_types::{ErrorCode, RangeRead, RangeWrite, Version, limits};

use super::entry::{Entry, EntryState};

/// What one segment's memory holds: non-overlapping ranges, each with the version that it obeys.
///
/// The rules that it keeps:
/// - no byte of a range changes before the entries that overlapped it are gone ([`Ledger::begin`] takes them out);
/// - an entry is complete only after its writer said that all bytes are in place;
/// - a range obeys the newest version that began in it: older ones are refused, and an older writer that is still
///   at work must have stopped before the new bytes land ([`Ledger::clearance`]).
///
/// A ticket stands for one writer from [`Ledger::begin`] until exactly one of [`Ledger::complete`] and
/// [`Ledger::abandon`].
#[derive(Clone, Debug)]
pub struct Ledger {
    len: u64,
    entries: BTreeMap<u64, Entry>,
    writers: BTreeMap<u64, Writer>,
    next_ticket: u64,
}

#[derive(Clone, Debug)]
struct Writer {
    range: Range<u64>,
    superseded: bool,
}

/// A write that has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begun {
    /// The writer's ticket.
    pub ticket: u64,
    /// The older writers that this one has superseded, to be told to stop.
    pub superseded: Vec<u64>,
}

/// Whether a writer may change bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clearance {
    /// It may.
    Clear,
    /// An older writer is still at work in its range.
    Wait,
    /// It may not: a newer version has begun in its range.
    Superseded,
}

impl Ledger {
    /// The ledger of an empty segment of `len` bytes.
    #[must_use]
    pub const fn new(len: u64) -> Self {
        Self { len, entries: BTreeMap::new(), writers: BTreeMap::new(), next_ticket: 0 }
    }

    /// Takes a range for a writer. Entries that overlap it are dropped, and writers at work in it superseded.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidWrite`] if the range does not lie in the segment or in its object,
    /// [`ErrorCode::InvalidKey`] for a key out of bounds, and [`ErrorCode::InvalidVersion`] if the same or a newer
    /// version has begun in a part of the range. A write of the same version, key and range may begin again once
    /// the first one was abandoned.
    pub fn begin(&mut self, range: &RangeWrite<'_>) -> Result<Begun, ErrorCode> {
        self.check(range)?;
        let wanted = range.offset..range.offset + range.len;
        let overlapped = self.overlapped(&wanted);
        let refused = overlapped.iter().any(|offset| {
            let entry = &self.entries[offset];
            entry.version >= range.version && !entry.may_begin_again(*offset, range)
        });
        if refused {
            return Err(ErrorCode::InvalidVersion);
        }
        for offset in overlapped {
            self.drop_entry(offset, &wanted);
        }
        let superseded = self.supersede_writers(&wanted);
        self.entries.insert(range.offset, Entry::writing(range));
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.writers.insert(ticket, Writer { range: wanted, superseded: false });
        Ok(Begun { ticket, superseded })
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
            .any(|other| other.superseded && overlap(&other.range, &writer.range));
        if blocked { Clearance::Wait } else { Clearance::Clear }
    }

    /// Ends a write: all bytes are in place. `checksums` is kept if it has one CRC32C per chunk.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidVersion`] if a newer version has begun in the range.
    ///
    /// # Panics
    /// If the ticket was completed or abandoned before.
    pub fn complete(&mut self, ticket: u64, checksums: Vec<u32>) -> Result<(), ErrorCode> {
        let writer = self.writers.remove(&ticket).expect("the ticket is open");
        if writer.superseded {
            return Err(ErrorCode::InvalidVersion);
        }
        let entry = self.written_entry(&writer);
        let chunks = entry.len.div_ceil(limits::CHUNK_BYTES);
        entry.checksums = (checksums.len() as u64 == chunks).then(|| Arc::from(checksums));
        entry.state = EntryState::Complete;
        Ok(())
    }

    /// Ends a write that failed: the writer changes nothing any more.
    ///
    /// # Panics
    /// If the ticket was completed or abandoned before.
    pub fn abandon(&mut self, ticket: u64) {
        let writer = self.writers.remove(&ticket).expect("the ticket is open");
        if !writer.superseded {
            self.written_entry(&writer).state = EntryState::Abandoned;
        }
    }

    /// Whether that version lies there, complete, and the bytes wanted are in it; gives the checksums of the whole
    /// entry, if they are known and all of it is wanted.
    ///
    /// # Errors
    /// [`ErrorCode::ObjectNotFound`] if the version does not lie there, [`ErrorCode::InvalidParams`] if it does and
    /// the bytes wanted are none or run past its end.
    pub fn read(&self, range: &RangeRead) -> Result<Option<Arc<[u32]>>, ErrorCode> {
        let found = self.entries.get(&range.offset);
        let held = found.filter(|entry| entry.holds(range.version));
        let entry = held.ok_or(ErrorCode::ObjectNotFound)?;
        let end = range.from.checked_add(range.len).filter(|&end| end <= entry.len);
        if end.is_none() || range.len == 0 {
            return Err(ErrorCode::InvalidParams);
        }
        let whole = range.len == entry.len;
        Ok(entry.checksums.clone().filter(|_| whole))
    }

    /// Whether that version still lies there, complete.
    #[must_use]
    pub fn holds(&self, offset: u64, version: Version) -> bool {
        self.entries.get(&offset).is_some_and(|entry| entry.holds(version))
    }

    /// All entries by their offsets, in order.
    pub fn entries(&self) -> impl Iterator<Item = (u64, &Entry)> {
        self.entries.iter().map(|(&offset, entry)| (offset, entry))
    }

    fn check(&self, range: &RangeWrite<'_>) -> Result<(), ErrorCode> {
        let inside = |from: u64, bound: u64| {
            from.checked_add(range.len).is_some_and(|end| end <= bound) && range.len > 0
        };
        if !inside(range.offset, self.len) || !inside(range.object_offset, range.object_len) {
            return Err(ErrorCode::InvalidWrite);
        }
        if range.key.is_empty() || range.key.len() > limits::MAX_KEY_BYTES {
            return Err(ErrorCode::InvalidKey);
        }
        Ok(())
    }

    /// Offsets of the entries that overlap a range.
    fn overlapped(&self, wanted: &Range<u64>) -> Vec<u64> {
        let before_end = self.entries.range(..wanted.end).rev();
        before_end
            .take_while(|(offset, entry)| **offset + entry.len > wanted.start)
            .map(|(&offset, _)| offset)
            .collect()
    }

    /// Drops an entry; what of its range lies outside of `wanted` stays fenced against older versions.
    fn drop_entry(&mut self, offset: u64, wanted: &Range<u64>) {
        let entry = self.entries.remove(&offset).expect("it was found a moment ago");
        let end = offset + entry.len;
        if offset < wanted.start {
            self.entries.insert(offset, Entry::fence(wanted.start - offset, entry.version));
        }
        if end > wanted.end {
            self.entries.insert(wanted.end, Entry::fence(end - wanted.end, entry.version));
        }
    }

    /// Marks the writers in a range that were not superseded before, and names them.
    fn supersede_writers(&mut self, wanted: &Range<u64>) -> Vec<u64> {
        let mut superseded = Vec::new();
        for (&ticket, writer) in &mut self.writers {
            if !writer.superseded && overlap(&writer.range, wanted) {
                writer.superseded = true;
                superseded.push(ticket);
            }
        }
        superseded
    }

    fn written_entry(&mut self, writer: &Writer) -> &mut Entry {
        let entry = self.entries.get_mut(&writer.range.start);
        let entry = entry.expect("a writer that was not superseded has its entry");
        assert_eq!(entry.state, EntryState::Writing, "an entry has one writer");
        entry
    }
}

impl Entry {
    fn holds(&self, version: Version) -> bool {
        self.state == EntryState::Complete && self.version == version
    }
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}
