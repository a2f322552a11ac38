use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use mooncake_types::{Epoch, ErrorCode, RangeDrop, RangeRead, RangeWrite, SegmentId, Version};

use super::Effect;
use super::epoch::{check_drop, check_epoch};
use super::pins::{PinKey, Pins};
use super::promises::Promises;
use crate::ledger::{Clearance, Dropped, FoundEntry, Ledger};

/// What a node does with one lent segment, and in which order. `H` is how the shell reaches who writes or looks at it.
///
/// Calls that change something tell the shell by `effects` what to do, see [`Effect`]. The orders are:
///
/// - **begin**, **drop**: rows of the entries that go, grants that the next process refuses, slots; then the writers and
///   readers in the way. A writer changes bytes only when it is [admitted](SegmentMachine::admit), after all of that (L1).
/// - **complete**: the shell says that all bytes are in place; then the row, the slot, and then the writer hears of it (L2).
/// - **start empty**: slots, rows, the new id; then the writers.
#[derive(Debug)]
pub struct SegmentMachine<H> {
    id: SegmentId,
    /// The highest epoch that is obeyed here.
    epoch: Epoch,
    ledger: Ledger,
    /// By their tickets.
    writers: BTreeMap<u64, Writer<H>>,
    pins: Pins<H>,
    promises: Promises,
}

#[derive(Debug)]
struct Writer<H> {
    handle: H,
    /// How long it waits to be admitted.
    until: Instant,
}

/// Who wants to write a range, or a part of one.
#[derive(Clone, Copy, Debug)]
pub struct WriteRequest<'a, H> {
    /// The epoch of the leader that granted it.
    pub epoch: Epoch,
    /// What is to be written.
    pub range: &'a RangeWrite<'a>,
    /// How to reach the writer.
    pub writer: H,
    /// The time.
    pub now: Instant,
    /// How long it waits to be admitted.
    pub until: Instant,
}

/// Whether a writer that has begun may change bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It may.
    Granted,
    /// Not yet: it asks again when a writer or a pin has gone, and in any case after this time.
    Wait(Duration),
    /// It may not, and has been abandoned.
    Refused(ErrorCode),
}

impl<H> SegmentMachine<H> {
    /// A segment in which this lies, and whose node has obeyed that epoch before.
    #[must_use]
    pub fn new(id: SegmentId, ledger: Ledger, epoch: Epoch) -> Self {
        let (writers, pins, promises) = Default::default();
        Self { id, epoch, ledger, writers, pins, promises }
    }

    /// What writers must call the segment.
    #[must_use]
    pub const fn id(&self) -> SegmentId {
        self.id
    }

    /// The highest epoch that is obeyed here.
    #[must_use]
    pub const fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// What lies here.
    #[must_use]
    pub const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// An epoch is obeyed from now on, if it is higher than the last.
    pub fn obey(&mut self, epoch: Epoch, mut effects: impl FnMut(Effect<'_, H>)) {
        if epoch > self.epoch {
            // Before anything is done that it allows: a process that comes after this one obeys no older one either.
            effects(Effect::NoteEpoch { epoch });
            self.epoch = epoch;
        }
    }

    /// Takes a range, or a part of one, for a writer, and gives its ticket. It may change bytes once it is
    /// [admitted](Self::admit).
    ///
    /// # Errors
    /// [`ErrorCode::UNKNOWN_LEADER`] or [`ErrorCode::InvalidVersion`] for another leader than the one that is obeyed,
    /// [`ErrorCode::SegmentNotFound`] for another segment, and as [`Ledger::begin`].
    pub fn begin(
        &mut self,
        request: WriteRequest<'_, H>,
        mut effects: impl FnMut(Effect<'_, H>),
    ) -> Result<u64, ErrorCode> {
        let WriteRequest { epoch, range, writer, now, until } = request;
        check_epoch(self.epoch, epoch, range.grant)?;
        if range.segment != self.id {
            return Err(ErrorCode::SegmentNotFound);
        }
        let begun = self.ledger.begin(range)?;
        withdraw(&begun.dropped, range.grant, &mut effects);
        self.interrupt(&begun.superseded, &mut effects);
        self.pins.ask(self.ledger.part_of(begun.ticket), now, &mut effects);
        self.writers.insert(begun.ticket, Writer { handle: writer, until });
        Ok(begun.ticket)
    }

    /// Whether a writer may change bytes now: no older one is at work in its part, nobody looks at that, and nothing that lay
    /// there is promised.
    ///
    /// # Panics
    /// If the ticket was completed, abandoned or refused.
    pub fn admit(&mut self, ticket: u64, now: Instant) -> Admission {
        let part = self.ledger.part_of(ticket);
        let pinned = self.pins.patience(part, now);
        let promised = self.promises.patience(part, now);
        let in_the_way = pinned.into_iter().chain(promised).min();
        let refusal = match (self.ledger.clearance(ticket), in_the_way) {
            (Clearance::Clear, None) => return Admission::Granted,
            (Clearance::Superseded, _) => ErrorCode::InvalidVersion,
            (Clearance::Clear | Clearance::Wait, in_the_way) => {
                let left = self.writers[&ticket].until.saturating_duration_since(now);
                let left = in_the_way.map_or(left, |in_the_way| left.min(in_the_way));
                if !left.is_zero() {
                    return Admission::Wait(left);
                }
                ErrorCode::ObjectReplicaBusy
            }
        };
        self.abandon(ticket);
        Admission::Refused(refusal)
    }

    /// All bytes of a part are in place; see [`Ledger::complete`].
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// If the ticket was completed, abandoned or refused before.
    pub fn complete(
        &mut self,
        ticket: u64,
        checksums: Vec<u32>,
        mut effects: impl FnMut(Effect<'_, H>),
    ) -> Result<(), ErrorCode> {
        self.writers.remove(&ticket);
        let offset = self.ledger.offset_of(ticket);
        self.ledger.complete(ticket, checksums)?;
        if let Some(entry) = self.ledger.complete_at(offset) {
            effects(Effect::AddRow { offset, entry });
            effects(Effect::AddSlot { offset, entry });
        }
        Ok(())
    }

    /// A writer changes nothing any more, and its part is not in place.
    ///
    /// # Panics
    /// If the ticket was completed, abandoned or refused before.
    pub fn abandon(&mut self, ticket: u64) {
        self.writers.remove(&ticket);
        self.ledger.abandon(ticket);
    }

    /// What a reader of a range finds; see [`Ledger::read`].
    ///
    /// # Errors
    /// As there.
    pub fn read(&self, range: &RangeRead) -> Result<FoundEntry, ErrorCode> {
        match range.segment == self.id {
            true => self.ledger.read(range),
            false => Err(ErrorCode::ObjectNotFound),
        }
    }

    /// A reader has computed the checksums of `len` bytes from `from` on; see [`Ledger::learn_checksums`].
    pub fn learn_checksums(
        &mut self,
        entry: (u64, Version, Version),
        part: (u64, u64),
        checksums: &[u32],
    ) -> bool {
        self.ledger.learn_checksums(entry, part, checksums)
    }

    /// Keeps a range as it is until [`SegmentMachine::unpin`], for a reader who is interrupted when a writer wants it.
    ///
    /// # Errors
    /// As [`SegmentMachine::read`], and [`ErrorCode::NoAvailableHandle`] if too much is pinned already.
    pub fn pin(&mut self, range: &RangeRead, reader: H) -> Result<PinKey, ErrorCode> {
        self.read(range)?;
        let start = range.offset + range.from;
        self.pins.add(&(start..start + range.len), self.ledger.len(), reader)
    }

    /// A reader looks no longer.
    pub fn unpin(&mut self, key: PinKey) {
        self.pins.remove(key);
    }

    /// Promises a reader that the entry is not said to be dropped for [`limits::PROMISE_MS`](mooncake_types::limits::PROMISE_MS).
    ///
    /// # Errors
    /// As [`SegmentMachine::read`], and [`ErrorCode::NoAvailableHandle`] if somebody waits for the entry to go, or too much is
    /// promised.
    pub fn promise(&mut self, range: &RangeRead, now: Instant) -> Result<(), ErrorCode> {
        self.read(range)?;
        let entry = self.ledger.complete_at(range.offset).ok_or(ErrorCode::ObjectNotFound)?;
        let (whole, version) = (range.offset..range.offset + entry.len, entry.version);
        self.promises.make(&whole, version, now)
    }

    /// Drops an entry, and what lies in its place if that is older.
    ///
    /// # Errors
    /// [`ErrorCode::ObjectHasLease`] while the entry is [promised](Self::promise);
    /// [`ErrorCode::UNKNOWN_LEADER`] or [`ErrorCode::InvalidVersion`] if another leader than the one that is obeyed named
    /// it, and [`ErrorCode::UnavailableInCurrentStatus`] if there are too many fences to keep another writer out that has
    /// not come.
    pub fn drop_entry(
        &mut self,
        range: &RangeDrop,
        now: Instant,
        mut effects: impl FnMut(Effect<'_, H>),
    ) -> Result<(), ErrorCode> {
        let RangeDrop { segment, offset, version, grant } = *range;
        if segment != self.id {
            // It is found by a former id too. What lay here then was dropped when it lost that.
            return Ok(());
        }
        check_drop(self.epoch, grant)?;
        if !self.ledger.may_drop(offset, version) {
            return Err(ErrorCode::UnavailableInCurrentStatus);
        }
        if self.promises.end(offset, version, now).is_some() {
            return Err(ErrorCode::ObjectHasLease);
        }
        let Dropped { dropped, superseded } = self.ledger.drop_version(offset, version, grant);
        withdraw(&dropped, grant, &mut effects);
        self.interrupt(&superseded, &mut effects);
        Ok(())
    }

    /// Drops a complete entry whose bytes are lost, if it still lies here. False if it does not.
    pub fn lose(
        &mut self,
        offset: u64,
        grant: Version,
        mut effects: impl FnMut(Effect<'_, H>),
    ) -> bool {
        let entry = self.ledger.complete_at(offset).filter(|entry| entry.grant == grant);
        let Some(version) = entry.map(|entry| entry.version) else { return false };
        let Dropped { dropped, superseded } = self.ledger.drop_version(offset, version, grant);
        withdraw(&dropped, grant, &mut effects);
        self.interrupt(&superseded, &mut effects);
        true
    }

    /// Drops everything that lies here, tells all writers to stop, and is another segment from now on: nothing begins under
    /// the old id any more.
    pub fn start_empty(&mut self, id: SegmentId, mut effects: impl FnMut(Effect<'_, H>)) {
        effects(Effect::CloseSlots);
        let Dropped { dropped, superseded } = self.ledger.drop_all();
        dropped.iter().for_each(|&offset| effects(Effect::RemoveRow { offset }));
        effects(Effect::Rename { id });
        self.id = id;
        self.interrupt(&superseded, &mut effects);
    }

    /// The segment is lent no longer: nobody finds anything here without asking, and all who look at it are asked to end.
    pub fn take_back(&mut self, now: Instant, mut effects: impl FnMut(Effect<'_, H>)) {
        effects(Effect::CloseSlots);
        self.pins.close(now, &mut effects);
    }

    /// Refuses new [promises](Self::promise). Returns how long the present ones hold; the master must not learn before that the
    /// segment leaves.
    pub fn end_promises(&mut self, now: Instant) -> Option<Duration> {
        self.promises.close(now)
    }

    /// Gives [promises](Self::promise) again: the master keeps the segment.
    pub fn resume_promises(&mut self) {
        self.promises.open();
    }

    /// Has the shell offer all complete entries in slots that are empty.
    pub fn fill_slots(&self, mut effects: impl FnMut(Effect<'_, H>)) {
        for (offset, _) in self.ledger.entries() {
            if let Some(entry) = self.ledger.complete_at(offset) {
                effects(Effect::AddSlot { offset, entry });
            }
        }
    }

    fn interrupt(&self, tickets: &[u64], effects: &mut impl FnMut(Effect<'_, H>)) {
        for ticket in tickets {
            effects(Effect::Interrupt(&self.writers[ticket].handle));
        }
    }
}

/// Entries that start here are gone from the ledger, and grants up to this one must not begin again in their places.
fn withdraw<H>(dropped: &[u64], grant: Version, effects: &mut impl FnMut(Effect<'_, H>)) {
    dropped.iter().for_each(|&offset| effects(Effect::RemoveRow { offset }));
    effects(Effect::RefuseGrants { up_to: grant });
    dropped.iter().for_each(|&offset| effects(Effect::RemoveSlot { offset }));
}
