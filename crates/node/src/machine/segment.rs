use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use mooncake_types::{Epoch, ErrorCode, RangeDrop, RangeRead, RangeWrite, SegmentId, Version};

use super::Effect;
use super::epoch::{check_drop, check_epoch};
use super::losses::Losses;
use super::pins::{PinKey, Pins};
use super::promises::Promises;
use crate::ledger::{Clearance, Dropped, FoundEntry, Ledger};

/// What a node does with one lent segment, and in which order. `H` is how the shell reaches a writer or a reader.
///
/// Calls that change something report each [`Effect`] through `effects`, in this order:
///
/// - **begin**, **drop**: removes the rows of dropped entries, refuses grants for the next process, and removes
///   slots; then interrupts the writers and readers in the way. A writer changes bytes only when it is
///   [admitted](SegmentMachine::admit), after all of that (L1).
/// - **complete**: the shell reports all bytes in place; then the machine adds the row and the slot; then the writer
///   gets its answer (L2).
/// - **start empty**: closes slots, removes rows, changes the id; then interrupts the writers.
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
    losses: Losses,
}

#[derive(Debug)]
struct Writer<H> {
    handle: H,
    /// Until when it waits to be admitted.
    until: Instant,
}

/// A request to write a range, or a part of one.
#[derive(Clone, Copy, Debug)]
pub struct WriteRequest<'a, H> {
    /// The epoch of the leader that granted it.
    pub epoch: Epoch,
    /// The range to write.
    pub range: &'a RangeWrite<'a>,
    /// How to reach the writer.
    pub writer: H,
    /// The present time.
    pub now: Instant,
    /// Until when the writer waits to be admitted.
    pub until: Instant,
}

/// Whether a writer that has begun may change bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It may.
    Granted,
    /// Not yet: the writer must ask again when a writer or a pin has gone, and at the latest after this time.
    Wait(Duration),
    /// It may not, and its write was abandoned.
    Refused(ErrorCode),
}

impl<H> SegmentMachine<H> {
    /// A segment with this ledger, whose node has obeyed `epoch` before.
    #[must_use]
    pub fn new(id: SegmentId, ledger: Ledger, epoch: Epoch) -> Self {
        let (writers, pins, promises, losses) = Default::default();
        Self { id, epoch, ledger, writers, pins, promises, losses }
    }

    /// The present id, which writers must name.
    #[must_use]
    pub const fn id(&self) -> SegmentId {
        self.id
    }

    /// The highest epoch that is obeyed here.
    #[must_use]
    pub const fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The ledger of the segment.
    #[must_use]
    pub const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Obeys an epoch from now on, if it is higher than the last.
    pub fn obey(&mut self, epoch: Epoch, mut effects: impl FnMut(Effect<'_, H>)) {
        if epoch > self.epoch {
            // Note it before anything that it allows: a later process must obey no older leader either.
            effects(Effect::NoteEpoch { epoch });
            self.epoch = epoch;
        }
    }

    /// Takes a range, or a part of one, for a writer, and returns the ticket. The writer may change bytes once it is
    /// [admitted](Self::admit).
    ///
    /// # Errors
    /// [`ErrorCode::UNKNOWN_LEADER`] or [`ErrorCode::InvalidVersion`] if the node does not obey the leader of the
    /// request, [`ErrorCode::SegmentNotFound`] for another segment, and as [`Ledger::begin`].
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

    /// Whether a writer may change bytes now: no older writer is at work in its part, no reader has pinned that, and
    /// no entry that lay there is promised.
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

    /// Completes a part whose bytes are all in place; see [`Ledger::complete`].
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

    /// Abandons a write: the writer changes no more bytes, and its part is not in place.
    ///
    /// # Panics
    /// If the ticket was completed, abandoned or refused before.
    pub fn abandon(&mut self, ticket: u64) {
        self.writers.remove(&ticket);
        self.ledger.abandon(ticket);
    }

    /// Finds a range for a reader; see [`Ledger::read`].
    ///
    /// # Errors
    /// As there.
    pub fn read(&self, range: &RangeRead) -> Result<FoundEntry, ErrorCode> {
        match range.segment == self.id {
            true => self.ledger.read(range),
            false => Err(ErrorCode::ObjectNotFound),
        }
    }

    /// Keeps the checksums that a reader computed; see [`Ledger::learn_checksums`]. Once all are known, the row can be
    /// added.
    pub fn learn_checksums(
        &mut self,
        entry: (u64, Version, Version),
        part: (u64, u64),
        checksums: &[u32],
        mut effects: impl FnMut(Effect<'_, H>),
    ) -> bool {
        let offset = entry.0;
        let are_known = |ledger: &Ledger| {
            ledger.complete_at(offset).is_some_and(|entry| entry.checksums.is_some())
        };
        let were_known = are_known(&self.ledger);
        let is_held = self.ledger.learn_checksums(entry, part, checksums);
        if let Some(entry) = self.ledger.complete_at(offset)
            && !were_known
            && entry.checksums.is_some()
        {
            effects(Effect::AddRow { offset, entry });
        }
        is_held
    }

    /// Keeps a range unchanged until [`SegmentMachine::unpin`]. The reader is interrupted when a writer wants the
    /// range.
    ///
    /// # Errors
    /// As [`SegmentMachine::read`], and [`ErrorCode::NoAvailableHandle`] if too much is pinned already.
    pub fn pin(&mut self, range: &RangeRead, reader: H) -> Result<PinKey, ErrorCode> {
        self.read(range)?;
        let start = range.offset + range.from;
        self.pins.add(&(start..start + range.len), self.ledger.len(), reader)
    }

    /// Ends a pin.
    pub fn unpin(&mut self, key: PinKey) {
        self.pins.remove(key);
    }

    /// Promises a reader to confirm no drop of the entry for
    /// [`limits::PROMISE_MS`](mooncake_types::limits::PROMISE_MS).
    ///
    /// # Errors
    /// As [`SegmentMachine::read`], and [`ErrorCode::NoAvailableHandle`] if a drop of the entry was requested lately,
    /// too much is promised, or the segment is about to leave.
    pub fn promise(&mut self, range: &RangeRead, now: Instant) -> Result<(), ErrorCode> {
        self.read(range)?;
        let entry = self.ledger.complete_at(range.offset).ok_or(ErrorCode::ObjectNotFound)?;
        let (whole, version) = (range.offset..range.offset + entry.len, entry.version);
        self.promises.make(&whole, version, now)
    }

    /// Drops an entry, and any older entry in its place.
    ///
    /// # Errors
    /// - [`ErrorCode::ObjectHasLease`] while the entry is [promised](Self::promise).
    /// - [`ErrorCode::UNKNOWN_LEADER`] or [`ErrorCode::InvalidVersion`] if the node does not obey the leader that
    ///   named the drop.
    pub fn drop_entry(
        &mut self,
        range: &RangeDrop,
        now: Instant,
        mut effects: impl FnMut(Effect<'_, H>),
    ) -> Result<(), ErrorCode> {
        let RangeDrop { segment, offset, version, grant } = *range;
        if segment != self.id {
            // Requests with a former id reach this segment too. Its entries were dropped when it lost that id.
            return Ok(());
        }
        check_drop(self.epoch, grant)?;
        if self.promises.end(offset, version, now).is_some() {
            return Err(ErrorCode::ObjectHasLease);
        }
        let Dropped { dropped, superseded } = self.ledger.drop_version(offset, version, grant);
        withdraw(&dropped, grant, &mut effects);
        self.interrupt(&superseded, &mut effects);
        Ok(())
    }

    /// Drops a complete entry whose bytes are lost, and notes it [for the master](Self::losses). False if it is not here
    /// any more.
    pub fn lose(
        &mut self,
        offset: u64,
        grant: Version,
        mut effects: impl FnMut(Effect<'_, H>),
    ) -> bool {
        let entry = self.ledger.complete_at(offset).filter(|entry| entry.grant == grant);
        let Some(entry) = entry else { return false };
        let version = entry.version;
        let segment = self.id;
        self.losses.note(&entry.key, RangeDrop { segment, offset, version, grant });
        let Dropped { dropped, superseded } = self.ledger.drop_version(offset, version, grant);
        withdraw(&dropped, grant, &mut effects);
        self.interrupt(&superseded, &mut effects);
        true
    }

    /// What was lost and is not known to be reported yet.
    #[must_use]
    pub const fn losses(&self) -> &Losses {
        &self.losses
    }

    /// The master knows all losses before this number.
    pub fn forget_losses_before(&mut self, number: u64) {
        self.losses.forget_before(number);
    }

    /// Drops everything in the segment, changes the id, and tells all writers to stop. No write begins under the old
    /// id any more.
    pub fn start_empty(&mut self, id: SegmentId, mut effects: impl FnMut(Effect<'_, H>)) {
        effects(Effect::CloseSlots);
        let Dropped { dropped, superseded } = self.ledger.drop_all();
        dropped.iter().for_each(|&offset| effects(Effect::RemoveRow { offset }));
        effects(Effect::Rename { id });
        self.id = id;
        self.losses = Losses::default();
        self.interrupt(&superseded, &mut effects);
    }

    /// Lends the segment no longer: closes the slots, and asks all readers to drop their pins.
    pub fn take_back(&mut self, now: Instant, mut effects: impl FnMut(Effect<'_, H>)) {
        effects(Effect::CloseSlots);
        self.pins.close(now, &mut effects);
    }

    /// Refuses new [promises](Self::promise). Returns how long the present ones hold; only then may the master learn
    /// that the segment leaves.
    pub fn end_promises(&mut self, now: Instant) -> Option<Duration> {
        self.promises.close(now)
    }

    /// Makes [promises](Self::promise) again: the master keeps the segment.
    pub fn resume_promises(&mut self) {
        self.promises.open();
    }

    /// Adds the slot of an entry that an earlier process completed, now that its bytes were checked. Ignores an entry
    /// that is gone, or was replaced under another grant.
    pub fn publish(&self, offset: u64, grant: Version, mut effects: impl FnMut(Effect<'_, H>)) {
        if let Some(entry) = self.ledger.complete_at(offset).filter(|entry| entry.grant == grant) {
            effects(Effect::AddSlot { offset, entry });
        }
    }

    fn interrupt(&self, tickets: &[u64], effects: &mut impl FnMut(Effect<'_, H>)) {
        for ticket in tickets {
            effects(Effect::Interrupt(&self.writers[ticket].handle));
        }
    }
}

/// Tells the shell that these entries were dropped, and that grants up to `grant` must not begin again in their
/// places.
fn withdraw<H>(dropped: &[u64], grant: Version, effects: &mut impl FnMut(Effect<'_, H>)) {
    dropped.iter().for_each(|&offset| effects(Effect::RemoveRow { offset }));
    effects(Effect::RefuseGrants { up_to: grant });
    dropped.iter().for_each(|&offset| effects(Effect::RemoveSlot { offset }));
}
