use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use mooncake_memory::{NamedSegment, NamedSegmentError, Region};
use mooncake_transfer::{Interrupt, ReadTicket, SharedSegment, WriteTicket};
use mooncake_types::{Epoch, ErrorCode, RangeRead, RangeWrite, SegmentId, limits};

use super::inherited::Inherited;
use super::prefault_window::PrefaultWindow;
use super::published::Published;
use super::rows::{EntryRows, RestoredRows};
use crate::ledger::{EntryState, FoundEntry, Ledger, first_change};
use crate::locked_machine::{AnyLockedMachine, LockedMachine};
use crate::machine::{PinKey, SegmentMachine, WriteRequest};
use crate::shell::SegmentShell;

/// One lent segment whose bytes lie in mapped memory: the shell of a [`SegmentMachine`].
pub struct Segment {
    run: u64,
    pub(super) region: Arc<Region>,
    prefaulted: PrefaultWindow,
    pub(super) machine: LockedMachine<Published>,
    pub(super) inherited: Inherited,
    is_named: bool,
    /// Whether each entry gets checksums at once, and parts of it are read only if they match.
    verifies: bool,
}

impl Segment {
    /// Lends all of `region`.
    #[must_use]
    pub fn new(id: SegmentId, region: Region) -> Self {
        let ledger = Ledger::new(region.len());
        Self::of_ledger((id, ledger, Epoch(0)), (1, region), None, Inherited::default())
    }

    /// Lends a named segment, with all entries that an earlier process completed. `id` is the id of a new segment.
    /// Readers find these entries once their bytes were checked ([`Segment::check_next`]).
    ///
    /// # Errors
    /// [`NamedSegmentError::Damaged`] if the record of the segment is not as it was written.
    pub fn named(id: SegmentId, named: NamedSegment) -> Result<Self, NamedSegmentError> {
        let len = named.memory.len();
        let RestoredRows { rows, ledger, unchecked } = match named.is_new() {
            true => RestoredRows::empty(named.words, id, len),
            false => EntryRows::restore(named.words, len)?,
        };
        let past = (rows.segment(), ledger, rows.epoch());
        let inherited = Inherited::of(unchecked);
        Ok(Self::of_ledger(past, (named.run, named.memory), Some(rows), inherited))
    }

    fn of_ledger(
        (id, mut ledger, epoch): (SegmentId, Ledger, Epoch),
        (run, region): (u64, Region),
        rows: Option<EntryRows>,
        inherited: Inherited,
    ) -> Self {
        let is_named = rows.is_some();
        // A master that followed the earlier process must not take that process's change numbers for these.
        ledger.number_changes(first_change(), limits::MAX_LEDGER_CHANGES);
        let machine = SegmentMachine::new(id, ledger, epoch);
        let published = Published::new(&region, rows);
        Self {
            run,
            region: Arc::new(region),
            prefaulted: PrefaultWindow::default(),
            machine: LockedMachine::new(machine, published),
            inherited,
            is_named,
            verifies: false,
        }
    }

    /// Computes the checksums of each entry as soon as it is complete, and checks the bytes of all reads of parts of
    /// chunks. Of whole chunks the readers get the checksums.
    #[must_use]
    pub fn verifying(mut self, verifies: bool) -> Self {
        self.verifies = verifies;
        self
    }

    /// Looks at the ledger, under its lock: no write or read begins meanwhile.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Ledger) -> T) -> T {
        self.machine.look(look)
    }

    /// Whether its entries outlive this process.
    #[must_use]
    pub const fn is_named(&self) -> bool {
        self.is_named
    }

    /// Number of complete entries, and their total length in bytes.
    #[must_use]
    pub fn complete_entries(&self) -> (usize, u64) {
        self.look(|ledger| {
            let entries = ledger.entries();
            let complete = entries.filter(|(_, entry)| entry.state == EntryState::Complete);
            complete.fold((0, 0), |(count, bytes), (_, entry)| (count + 1, bytes + entry.len))
        })
    }

    /// What other processes of this host need to read it directly. `None` if it has another id by now.
    pub(crate) fn share(&self, id: SegmentId) -> Option<SharedSegment> {
        let locked = self.machine.lock();
        let slots = locked.carrier.slots().filter(|_| locked.machine.id() == id)?;
        Some(SharedSegment { region: Arc::clone(&self.region), slots })
    }

    /// Keeps a range unchanged until [`Segment::unpin`].
    pub(crate) fn begin_pin(
        &self,
        range: &RangeRead,
        interrupt: Arc<dyn Interrupt>,
    ) -> Result<(PinKey, Arc<Region>), ErrorCode> {
        self.check_before_read(range.offset);
        let key = self.machine.lock().machine.pin(range, interrupt)?;
        Ok((key, Arc::clone(&self.region)))
    }

    pub(crate) fn unpin(&self, key: PinKey) {
        self.machine.change(|machine, _| machine.unpin(key));
    }

    /// Promises to confirm no drop of an entry for a while.
    pub(crate) fn promise(&self, range: &RangeRead) -> Result<(), ErrorCode> {
        self.check_before_read(range.offset);
        self.machine.lock().machine.promise(range, Instant::now())
    }

    /// Makes no more promises, and returns how long earlier ones still hold.
    pub(crate) fn end_promises(&self) -> Option<Duration> {
        self.machine.lock().machine.end_promises(Instant::now())
    }

    /// Makes promises again.
    pub(crate) fn resume_promises(&self) {
        self.machine.lock().machine.resume_promises();
    }

    /// The present id of the segment. It changes when the segment starts empty.
    #[must_use]
    pub fn id(&self) -> SegmentId {
        self.machine.id()
    }

    /// How many processes have lent its memory, this one included.
    #[must_use]
    pub const fn run(&self) -> u64 {
        self.run
    }

    /// Its length in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.region.len()
    }

    /// A weak reference to the memory. It upgrades for as long as any transfer or reader has the memory.
    pub(crate) fn watch_memory(&self) -> Weak<Region> {
        Arc::downgrade(&self.region)
    }

    pub(crate) fn region(&self) -> &Region {
        &self.region
    }

    pub(crate) fn prefaulted(&self) -> &PrefaultWindow {
        &self.prefaulted
    }
}

impl SegmentShell for Segment {
    fn machine(&self) -> &dyn AnyLockedMachine {
        &self.machine
    }

    fn start_empty(&self, id: SegmentId) {
        let mut locked = self.machine.lock();
        locked.change(|machine, effects| machine.start_empty(id, effects));
        locked.carrier.renew_slots(&self.region);
        self.machine.stopped.wake_all();
    }

    fn begin_write(
        &self,
        (epoch, range): (Epoch, &RangeWrite<'_>),
        writer: Arc<dyn Interrupt>,
        patience: Duration,
    ) -> Result<WriteTicket, ErrorCode> {
        let now = Instant::now();
        let request = WriteRequest { epoch, range, writer, now, until: now + patience };
        let mut locked = self.machine.lock();
        let ticket = locked.change(|machine, effects| machine.begin(request, effects))?;
        self.machine.stopped.wake_all();
        self.prefaulted.reach(range.offset + range.from + range.len);
        self.machine.wait_for_admission(locked, ticket, now)?;
        let memory = self.region.hold(range.offset + range.from, range.len);
        let memory = memory.expect("the ledger takes no range outside of its segment");
        Ok(WriteTicket { memory, id: ticket, segment: range.segment })
    }

    fn complete_write(&self, ticket: WriteTicket, checksums: Vec<u32>) -> Result<(), ErrorCode> {
        let kept = self.machine.change(|machine, effects| {
            let keeps = self.is_named || self.verifies;
            let kept = keeps.then(|| machine.ledger().offset_of(ticket.id));
            machine.complete(ticket.id, checksums, effects)?;
            Ok(kept)
        })?;
        if let Some(offset) = kept {
            self.add_checksums(offset);
        }
        Ok(())
    }

    fn begin_read(&self, range: &RangeRead) -> Result<ReadTicket, ErrorCode> {
        self.check_before_read(range.offset);
        let FoundEntry { grant, checksums } = self.machine.lock().machine.read(range)?;
        if self.verifies && checksums.is_none() {
            self.verify_part(range)?;
        }
        let memory = self.region.hold(range.offset + range.from, range.len);
        let memory = memory.expect("the ledger holds no range outside of its segment");
        let RangeRead { segment, offset, version, from, .. } = *range;
        Ok(ReadTicket { memory, checksums, segment, offset, from, version, grant })
    }

    fn learn_checksums(&self, ticket: &ReadTicket, checksums: &[u32]) -> bool {
        let entry = (ticket.offset, ticket.version, ticket.grant);
        let part = (ticket.from, ticket.memory.len() as u64);
        let mut locked = self.machine.lock();
        locked.change(|machine, effects| machine.learn_checksums(entry, part, checksums, effects))
    }
}

impl Drop for Segment {
    /// Closes the slots before the memory is given back. Otherwise other processes would read foreign bytes at the
    /// published offsets.
    fn drop(&mut self) {
        self.machine.carrier_mut().close_slots();
    }
}
