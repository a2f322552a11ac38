use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use mooncake_memory::{NamedSegment, NamedSegmentError, Region};
use mooncake_transfer::{Interrupt, ReadTicket, SharedSegment, WriteTicket};
use mooncake_types::{Epoch, ErrorCode, RangeDrop, RangeRead, RangeWrite, SegmentId, limits};

use super::prefault::PrefaultWindow;
use super::published::Published;
use super::rows::EntryRows;
use crate::ledger::{EntryState, FoundEntry, Ledger, first_change};
use crate::machine::{Admission, PinKey, SegmentMachine, WriteRequest};
use crate::shell::SegmentShell;
use crate::signal::Signal;

/// One lent segment whose bytes lie in mapped memory: the shell of a [`SegmentMachine`].
pub struct Segment {
    run: u64,
    region: Arc<Region>,
    prefaulted: PrefaultWindow,
    locked: Mutex<Locked>,
    /// Given whenever a writer has stopped or a pin was dropped.
    stopped: Signal,
}

struct Locked {
    machine: SegmentMachine<Arc<dyn Interrupt>>,
    published: Published,
}

impl Segment {
    /// Lends all of `region`.
    #[must_use]
    pub fn new(id: SegmentId, region: Region) -> Self {
        let ledger = Ledger::new(region.len());
        Self::of_ledger((id, ledger, Epoch(0)), (1, region), None)
    }

    /// Lends a named segment, with all that an earlier process completed in it. It is `id` if it is a new one.
    ///
    /// # Errors
    /// [`NamedSegmentError::Damaged`] if what was kept of it is not what was written.
    pub fn named(id: SegmentId, named: NamedSegment) -> Result<Self, NamedSegmentError> {
        let len = named.memory.len();
        let (rows, ledger) = match named.is_new() {
            true => (EntryRows::empty(named.words, id), Ledger::new(len)),
            false => EntryRows::restore(named.words, len)?,
        };
        let past = (rows.segment(), ledger, rows.epoch());
        let segment = Self::of_ledger(past, (named.run, named.memory), Some(rows));
        segment.change(|machine, published| {
            machine.fill_slots(|effect| published.carry_out(&effect));
        });
        Ok(segment)
    }

    fn of_ledger(
        (id, mut ledger, epoch): (SegmentId, Ledger, Epoch),
        (run, region): (u64, Region),
        rows: Option<EntryRows>,
    ) -> Self {
        // A master that followed the process before must not take that one's change numbers for these.
        ledger.number_changes(first_change(), limits::MAX_LEDGER_CHANGES);
        let machine = SegmentMachine::new(id, ledger, epoch);
        let published = Published::new(&region, rows);
        Self {
            run,
            region: Arc::new(region),
            prefaulted: PrefaultWindow::default(),
            locked: Mutex::new(Locked { machine, published }),
            stopped: Signal::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Locked> {
        self.locked.lock().expect("no holder of the ledger panicked")
    }

    /// Has the machine change something, and wakes all that may go on since.
    fn change<T>(
        &self,
        change: impl FnOnce(&mut SegmentMachine<Arc<dyn Interrupt>>, &mut Published) -> T,
    ) -> T {
        let mut locked = self.lock();
        let Locked { machine, published } = &mut *locked;
        let changed = change(machine, published);
        self.stopped.wake_all();
        changed
    }

    /// Looks at the ledger, under its lock: no write or read begins meanwhile.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Ledger) -> T) -> T {
        look(self.lock().machine.ledger())
    }

    /// Whether what lies in it outlives this process.
    #[must_use]
    pub fn is_named(&self) -> bool {
        self.lock().published.has_rows()
    }

    /// How many entries are complete, and their length together in bytes.
    #[must_use]
    pub fn complete_entries(&self) -> (usize, u64) {
        self.look(|ledger| {
            let entries = ledger.entries();
            let complete = entries.filter(|(_, entry)| entry.state == EntryState::Complete);
            complete.fold((0, 0), |(count, bytes), (_, entry)| (count + 1, bytes + entry.len))
        })
    }

    /// What other processes of this host need to read it by themselves, as long as it has this id.
    pub(crate) fn share(&self, id: SegmentId) -> Option<SharedSegment> {
        let locked = self.lock();
        let slots = locked.published.slots().filter(|_| locked.machine.id() == id)?;
        Some(SharedSegment { region: Arc::clone(&self.region), slots })
    }

    /// Keeps a range as it is until [`Segment::unpin`].
    pub(crate) fn begin_pin(
        &self,
        range: &RangeRead,
        interrupt: Arc<dyn Interrupt>,
    ) -> Result<(PinKey, Arc<Region>), ErrorCode> {
        let key = self.lock().machine.pin(range, interrupt)?;
        Ok((key, Arc::clone(&self.region)))
    }

    pub(crate) fn unpin(&self, key: PinKey) {
        self.change(|machine, _| machine.unpin(key));
    }

    /// Promises not to say for a while that an entry is dropped.
    pub(crate) fn promise(&self, range: &RangeRead) -> Result<(), ErrorCode> {
        self.lock().machine.promise(range, Instant::now())
    }

    /// Promises nothing any more, and gives how long earlier promises still hold.
    pub(crate) fn end_promises(&self) -> Option<Duration> {
        self.lock().machine.end_promises(Instant::now())
    }

    /// The segment's incarnation.
    #[must_use]
    pub fn id(&self) -> SegmentId {
        self.lock().machine.id()
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

    fn wait_for_admission(
        &self,
        mut locked: MutexGuard<'_, Locked>,
        ticket: u64,
        mut now: Instant,
    ) -> Result<(), ErrorCode> {
        loop {
            match locked.machine.admit(ticket, now) {
                Admission::Granted => return Ok(()),
                Admission::Wait(left) => locked = self.stopped.wait(locked, left),
                Admission::Refused(code) => {
                    self.stopped.wake_all();
                    return Err(code);
                }
            }
            now = Instant::now();
        }
    }
}

impl SegmentShell for Segment {
    fn start_empty(&self, id: SegmentId) {
        self.change(|machine, published| {
            machine.start_empty(id, |effect| published.carry_out(&effect));
            published.renew_slots(&self.region);
        });
    }

    fn epoch(&self) -> Epoch {
        self.lock().machine.epoch()
    }

    fn obey(&self, epoch: Epoch) {
        self.change(|machine, published| {
            machine.obey(epoch, |effect| published.carry_out(&effect));
        });
    }

    fn take_back(&self) {
        self.change(|machine, published| {
            machine.take_back(Instant::now(), |effect| published.carry_out(&effect));
        });
    }

    fn begin_write(
        &self,
        (epoch, range): (Epoch, &RangeWrite<'_>),
        writer: Arc<dyn Interrupt>,
        patience: Duration,
    ) -> Result<WriteTicket, ErrorCode> {
        let now = Instant::now();
        let request = WriteRequest { epoch, range, writer, now, until: now + patience };
        let mut locked = self.lock();
        let Locked { machine, published } = &mut *locked;
        let ticket = machine.begin(request, |effect| published.carry_out(&effect))?;
        self.stopped.wake_all();
        self.prefaulted.reach(range.offset + range.from + range.len);
        self.wait_for_admission(locked, ticket, now)?;
        let memory = self.region.slice(range.offset + range.from, range.len);
        let memory = memory.expect("the ledger takes no range outside of its segment");
        let region = Arc::clone(&self.region);
        Ok(WriteTicket { memory, region, id: ticket, segment: range.segment })
    }

    fn complete_write(&self, ticket: WriteTicket, checksums: Vec<u32>) -> Result<(), ErrorCode> {
        self.change(|machine, published| {
            machine.complete(ticket.id, checksums, |effect| published.carry_out(&effect))
        })
    }

    fn abandon_write(&self, ticket: WriteTicket) {
        self.change(|machine, _| machine.abandon(ticket.id));
    }

    fn begin_read(&self, range: &RangeRead) -> Result<ReadTicket, ErrorCode> {
        let FoundEntry { grant, checksums } = self.lock().machine.read(range)?;
        let memory = self.region.slice(range.offset + range.from, range.len);
        let memory = memory.expect("the ledger holds no range outside of its segment");
        let RangeRead { segment, offset, version, from, .. } = *range;
        let region = Arc::clone(&self.region);
        Ok(ReadTicket { memory, region, checksums, segment, offset, from, version, grant })
    }

    fn drop_entry(&self, range: &RangeDrop) -> Result<(), ErrorCode> {
        self.change(|machine, published| {
            machine.drop_entry(range, Instant::now(), |effect| published.carry_out(&effect))
        })
    }

    fn still_holds(&self, ticket: &ReadTicket) -> bool {
        let ReadTicket { offset, version, grant, .. } = *ticket;
        self.look(|ledger| ledger.still_holds(offset, version, grant))
    }

    fn learn_checksums(&self, ticket: &ReadTicket, checksums: &[u32]) -> bool {
        let entry = (ticket.offset, ticket.version, ticket.grant);
        let part = (ticket.from, ticket.memory.len() as u64);
        self.lock().machine.learn_checksums(entry, part, checksums)
    }
}

impl Drop for Segment {
    /// Before its memory is given back: others would find other bytes where the table says that theirs lie.
    fn drop(&mut self) {
        let locked = self.locked.get_mut().unwrap_or_else(PoisonError::into_inner);
        locked.published.close_slots();
    }
}
