use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

use mooncake_memory::{NamedSegment, NamedSegmentError, Region, SlotRow, SlotTable};
use mooncake_transfer::{Interrupt, ReadTicket, SharedSegment, WriteTicket};
use mooncake_types::{
    Epoch, ErrorCode, Follow, RangeDrop, RangeRead, RangeWrite, SegmentId, limits,
};

use super::prefault::PrefaultWindow;
use super::rows::EntryRows;
use super::signal::Signal;
use crate::ledger::{
    ChangedEntries, Clearance, EntryState, FollowAnswer, FoundEntry, Inventory, Ledger,
};
use crate::machine::pins::{PinKey, Pins};

/// Most former ids that a segment is known by.
const MAX_FORMER: usize = 64;

/// One lent segment: its memory, its ledger, and the writers at work in it.
pub struct Segment {
    id: SegmentId,
    run: u64,
    /// What it was called before it started empty: writers of then may still be at work.
    former: Vec<SegmentId>,
    region: Arc<Region>,
    prefaulted: Arc<PrefaultWindow>,
    /// What other processes of this host read by; it changes under the lock of the books only.
    slots: Option<Arc<SlotTable>>,
    books: Arc<Mutex<Books>>,
    /// Given whenever a writer has stopped.
    stopped: Arc<Signal>,
}

struct Books {
    /// What writers must call the segment.
    id: SegmentId,
    ledger: Ledger,
    /// What of the ledger outlives this process, if anything does.
    kept: Option<EntryRows>,
    interrupts: BTreeMap<u64, Arc<dyn Interrupt>>,
    pins: Pins,
}

impl Segment {
    /// Lends all of `region`.
    #[must_use]
    pub fn new(id: SegmentId, region: Region) -> Self {
        let ledger = Ledger::new(region.len());
        Self::of_books(1, region, Books::new(id, ledger, None))
    }

    /// Lends a named segment, with all that an earlier process completed in it. It is `id` if it is a new one.
    ///
    /// # Errors
    /// [`NamedSegmentError::Damaged`] if what was kept of it is not what was written.
    pub fn named(id: SegmentId, named: NamedSegment) -> Result<Self, NamedSegmentError> {
        let len = named.memory.len();
        let (kept, ledger) = match named.is_new() {
            true => (EntryRows::empty(named.words, id), Ledger::new(len)),
            false => EntryRows::restore(named.words, len)?,
        };
        let books = Books::new(kept.segment(), ledger, Some(kept));
        let segment = Self::of_books(named.run, named.memory, books);
        let books = segment.lock();
        books.ledger.entries().for_each(|(offset, _)| segment.publish(&books.ledger, offset));
        drop(books);
        Ok(segment)
    }

    fn of_books(run: u64, region: Region, mut books: Books) -> Self {
        // Whoever followed the process before, whose changes are forgotten, must not take its numbers for these.
        books.ledger.number_changes(first_change(), limits::MAX_LEDGER_CHANGES);
        Self {
            id: books.id,
            run,
            former: Vec::new(),
            slots: new_slots(&region),
            region: Arc::new(region),
            prefaulted: Arc::default(),
            books: Arc::new(Mutex::new(books)),
            stopped: Arc::default(),
        }
    }

    /// Drops everything that lies here, tells all writers to stop, and gives what the segment is from now on, under
    /// another id. Nothing begins under the old one any more.
    pub(crate) fn start_empty(&self, id: SegmentId) -> Self {
        let mut books = self.lock();
        // Before the ledger lets anybody change a byte.
        self.close();
        let gone = books.ledger.drop_all();
        books.id = id;
        if let Some(kept) = &mut books.kept {
            kept.start_empty(id);
        }
        self.stop(&books, &gone.superseded);
        drop(books);
        let mut former = self.former.clone();
        // The first of all is the one by which callers know it.
        if former.len() == MAX_FORMER {
            former.remove(MAX_FORMER - 2);
        }
        former.insert(0, self.id);
        Self {
            id,
            run: self.run,
            former,
            slots: new_slots(&self.region),
            region: Arc::clone(&self.region),
            prefaulted: Arc::clone(&self.prefaulted),
            books: Arc::clone(&self.books),
            stopped: Arc::clone(&self.stopped),
        }
    }

    /// Whether what lies in it outlives this process.
    #[must_use]
    pub fn is_named(&self) -> bool {
        self.lock().kept.is_some()
    }

    /// How many entries are complete, and their length together in bytes.
    #[must_use]
    pub fn complete_entries(&self) -> (usize, u64) {
        let books = self.lock();
        let complete =
            books.ledger.entries().filter(|(_, entry)| entry.state == EntryState::Complete);
        complete.fold((0, 0), |(count, bytes), (_, entry)| (count + 1, bytes + entry.len))
    }

    /// The highest epoch that it is known to have obeyed before; zero if that is not known.
    pub(crate) fn epoch(&self) -> Epoch {
        self.lock().kept.as_ref().map_or(Epoch(0), EntryRows::epoch)
    }

    /// An epoch is about to be obeyed here.
    pub(crate) fn note_epoch(&self, epoch: Epoch) {
        if let Some(kept) = &self.lock().kept {
            kept.note_epoch(epoch);
        }
    }

    /// What other processes of this host need to read it by themselves.
    pub(crate) fn share(&self) -> Option<SharedSegment> {
        let slots = Arc::clone(self.slots.as_ref()?);
        Some(SharedSegment { region: Arc::clone(&self.region), slots })
    }

    /// Tells other processes that what they have mapped is no longer lent. Its memory goes later.
    pub(crate) fn close(&self) {
        if let Some(slots) = &self.slots {
            slots.close();
        }
    }

    /// Asks for all that is pinned, and pins nothing any more.
    pub(crate) fn recall(&self) {
        self.lock().pins.close();
    }

    /// Keeps a range as it is until [`Segment::unpin`].
    pub(crate) fn begin_pin(
        &self,
        range: &RangeRead,
        interrupt: Arc<dyn Interrupt>,
    ) -> Result<(PinKey, Arc<Region>), ErrorCode> {
        let mut books = self.lock();
        books.ledger.read(range)?;
        let start = range.offset + range.from;
        let key = books.pins.add(&(start..start + range.len), self.len_bytes(), interrupt)?;
        Ok((key, Arc::clone(&self.region)))
    }

    pub(crate) fn unpin(&self, key: PinKey) {
        self.lock().pins.remove(key);
        self.stopped.wake_all();
    }

    /// The segment's incarnation.
    #[must_use]
    pub const fn id(&self) -> SegmentId {
        self.id
    }

    /// How many processes have lent its memory, this one included.
    #[must_use]
    pub const fn run(&self) -> u64 {
        self.run
    }

    /// Whether this is its id, or was.
    pub(crate) fn is_called(&self, id: SegmentId) -> bool {
        self.id == id || self.former.contains(&id)
    }

    /// Whether nothing can be read here and nothing is being written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lock().ledger.is_empty()
    }

    /// See [`Ledger::inventory`]. Nobody writes or reads here while a page is made.
    #[must_use]
    pub fn inventory(&self, from: u64, limit: usize) -> Inventory {
        self.lock().ledger.inventory(from, limit)
    }

    /// See [`Ledger::follow`].
    ///
    /// # Errors
    /// As there.
    pub fn follow(&self, follow: &Follow, limit: usize) -> Result<FollowAnswer, ErrorCode> {
        self.lock().ledger.follow(follow, limit)
    }

    /// See [`Ledger::changed`].
    #[must_use]
    pub fn changed(&self, since: u64, limit: usize) -> Option<ChangedEntries> {
        self.lock().ledger.changed(since, limit)
    }

    /// Its length in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.region.len()
    }

    /// Tells whether anybody still holds the memory.
    pub(crate) fn watch_memory(&self) -> Weak<Region> {
        Arc::downgrade(&self.region)
    }

    pub(crate) fn region(&self) -> &Region {
        &self.region
    }

    pub(crate) fn prefaulted(&self) -> &PrefaultWindow {
        &self.prefaulted
    }

    /// Takes a range, or a part of one, for a writer whose leader the node `obeys`, and waits, `patience` at most, for older
    /// writers in it to stop and for those who look at it to let it go.
    pub(crate) fn begin_write(
        &self,
        range: &RangeWrite<'_>,
        interrupt: Arc<dyn Interrupt>,
        patience: Duration,
        obeys: impl Fn() -> Result<(), ErrorCode>,
    ) -> Result<WriteTicket, ErrorCode> {
        let mut books = self.lock();
        // Under the lock: a leader that this node has seen gets an inventory that holds all that older ones let begin.
        obeys()?;
        if books.id != range.segment {
            return Err(ErrorCode::SegmentNotFound);
        }
        let begun = books.ledger.begin(range)?;
        if let Some(kept) = &mut books.kept {
            kept.begin(&begun.dropped, range.grant);
        }
        // Before this writer, or one that it waits for, can have changed a byte of what others read by themselves.
        if let Some(slots) = &self.slots {
            begun.dropped.iter().for_each(|&offset| slots.withdraw(offset));
        }
        self.prefaulted.reach(range.offset + range.from + range.len);
        books.interrupts.insert(begun.ticket, interrupt);
        // Under the lock, so that none of them ends meanwhile and something else is interrupted in its place.
        self.stop(&books, &begun.superseded);
        let start = range.offset + range.from;
        let part = start..start + range.len;
        books.pins.ask(&part);
        self.wait_for_clearance(books, (begun.ticket, &part), patience)?;
        let memory = self.region.slice(start, range.len);
        let memory = memory.expect("the ledger takes no range outside of its segment");
        let region = Arc::clone(&self.region);
        Ok(WriteTicket { memory, region, id: begun.ticket, segment: self.id })
    }

    fn wait_for_clearance(
        &self,
        mut books: MutexGuard<'_, Books>,
        (ticket, part): (u64, &Range<u64>),
        patience: Duration,
    ) -> Result<(), ErrorCode> {
        let started = Instant::now();
        let refusal = loop {
            let pinned = books.pins.patience(part);
            match books.ledger.clearance(ticket) {
                Clearance::Clear if pinned.is_none() => return Ok(()),
                Clearance::Superseded => break ErrorCode::InvalidVersion,
                Clearance::Clear | Clearance::Wait => {}
            }
            let left = patience.saturating_sub(started.elapsed());
            let left = pinned.map_or(left, |pinned| left.min(pinned));
            if left.is_zero() {
                break ErrorCode::ObjectReplicaBusy;
            }
            books = self.stopped.wait(books, left);
        };
        books.ledger.abandon(ticket);
        books.interrupts.remove(&ticket);
        self.stopped.wake_all();
        Err(refusal)
    }

    pub(crate) fn complete_write(&self, ticket: u64, checksums: Vec<u32>) -> Result<(), ErrorCode> {
        let mut books = self.lock();
        books.interrupts.remove(&ticket);
        let offset = books.ledger.offset_of(ticket);
        let completed = books.ledger.complete(ticket, checksums);
        if completed.is_ok() {
            books.keep(offset);
            self.publish(&books.ledger, offset);
        }
        self.stopped.wake_all();
        completed
    }

    /// Lets other processes read the entry that starts here by themselves, if all of it is there.
    fn publish(&self, ledger: &Ledger, offset: u64) {
        if let (Some(slots), Some(entry)) = (&self.slots, ledger.complete_at(offset)) {
            let (len, version, object_offset) = (entry.len, entry.version, entry.object_offset);
            slots.publish(&SlotRow { offset, len, version, object_offset });
        }
    }

    pub(crate) fn abandon_write(&self, ticket: u64) {
        let mut books = self.lock();
        books.interrupts.remove(&ticket);
        books.ledger.abandon(ticket);
        self.stopped.wake_all();
    }

    pub(crate) fn begin_read(&self, range: &RangeRead) -> Result<ReadTicket, ErrorCode> {
        let FoundEntry { grant, checksums } = self.lock().ledger.read(range)?;
        let memory = self.region.slice(range.offset + range.from, range.len);
        let memory = memory.expect("the ledger holds no range outside of its segment");
        let RangeRead { segment, offset, version, from, .. } = *range;
        let region = Arc::clone(&self.region);
        Ok(ReadTicket { memory, region, checksums, segment, offset, from, version, grant })
    }

    /// Drops an entry, and what lies in its place if that is older, if the node `obeys` whoever named it: that is asked
    /// while the ledger stands still.
    ///
    /// # Errors
    /// Why it does not; [`ErrorCode::UnavailableInCurrentStatus`] also if there are too many fences to keep another writer out
    /// that has not come.
    pub(crate) fn drop_entry(
        &self,
        range: &RangeDrop,
        obeys: impl FnOnce() -> Result<(), ErrorCode>,
    ) -> Result<(), ErrorCode> {
        let RangeDrop { offset, version, grant, .. } = *range;
        let mut books = self.lock();
        obeys()?;
        if !books.ledger.may_drop(offset, version) {
            return Err(ErrorCode::UnavailableInCurrentStatus);
        }
        let gone = books.ledger.drop_version(offset, version, grant);
        if let Some(kept) = &mut books.kept {
            kept.drop_entries(&gone.dropped, grant);
        }
        if let Some(slots) = &self.slots {
            gone.dropped.iter().for_each(|&offset| slots.withdraw(offset));
        }
        self.stop(&books, &gone.superseded);
        Ok(())
    }

    /// Tells these writers to stop, and those that wait for older ones that they need not any more.
    fn stop(&self, books: &Books, writers: &[u64]) {
        for interrupt in books.interrupts_of(writers) {
            interrupt.interrupt();
        }
        if !writers.is_empty() {
            self.stopped.wake_all();
        }
    }

    pub(crate) fn still_holds(&self, ticket: &ReadTicket) -> bool {
        self.lock().ledger.still_holds(ticket.offset, ticket.version, ticket.grant)
    }

    /// As [`Segment::still_holds`], and keeps what the reader computed.
    pub(crate) fn learn_checksums(&self, ticket: &ReadTicket, checksums: &[u32]) -> bool {
        let entry = (ticket.offset, ticket.version, ticket.grant);
        let part = (ticket.from, ticket.memory.len() as u64);
        self.lock().ledger.learn_checksums(entry, part, checksums)
    }

    fn lock(&self) -> MutexGuard<'_, Books> {
        self.books.lock().expect("no holder of the ledger panicked")
    }
}

/// A number that no other process begins with.
fn first_change() -> u64 {
    // Its keys are those of this process, and different each time.
    std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), "changes") >> 1
}

fn new_slots(region: &Region) -> Option<Arc<SlotTable>> {
    let slots = SlotTable::new(region.len()).inspect_err(|error| {
        tracing::info!(%error, "other processes of this host read this segment by message");
    });
    slots.ok().map(Arc::new)
}

impl Drop for Segment {
    /// Before its memory is given back: others would find other bytes where the table says that theirs lie.
    fn drop(&mut self) {
        self.close();
    }
}

impl Books {
    fn new(id: SegmentId, ledger: Ledger, kept: Option<EntryRows>) -> Self {
        Self { id, ledger, kept, interrupts: BTreeMap::new(), pins: Pins::default() }
    }

    /// Has the entry that starts here outlive the process, if all of it is there.
    fn keep(&mut self, offset: u64) {
        if let (Some(kept), Some(entry)) = (&mut self.kept, self.ledger.complete_at(offset)) {
            kept.complete(offset, entry);
        }
    }

    fn interrupts_of(&self, tickets: &[u64]) -> Vec<Arc<dyn Interrupt>> {
        tickets.iter().filter_map(|ticket| self.interrupts.get(ticket)).map(Arc::clone).collect()
    }
}
