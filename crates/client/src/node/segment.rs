use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

use mooncake_memory::{Region, SlotRow, SlotTable};
use mooncake_transfer::{Interrupt, ReadTicket, SharedSegment, WriteTicket};
use mooncake_types::{ErrorCode, RangeRead, RangeWrite, SegmentId, Version};

use super::bell::Bell;
use super::frontier::Frontier;
use super::ledger::{Clearance, Held, Ledger};

/// One lent segment: its memory, its ledger, and the writers at work in it.
pub struct Segment {
    id: SegmentId,
    region: Arc<Region>,
    frontier: Frontier,
    /// What other processes of this host read by; it changes under the lock of the books only.
    slots: Option<Arc<SlotTable>>,
    books: Mutex<Books>,
    /// Told whenever a writer has stopped.
    stopped: Bell,
}

struct Books {
    ledger: Ledger,
    interrupts: BTreeMap<u64, Arc<dyn Interrupt>>,
}

impl Segment {
    /// Lends all of `region`.
    #[must_use]
    pub fn new(id: SegmentId, region: Region) -> Self {
        let ledger = Ledger::new(region.len());
        let books = Mutex::new(Books { ledger, interrupts: BTreeMap::new() });
        let slots = SlotTable::new(region.len()).inspect_err(|error| {
            tracing::info!(%error, "other processes of this host read this segment by message");
        });
        Self {
            id,
            region: Arc::new(region),
            frontier: Frontier::default(),
            slots: slots.ok().map(Arc::new),
            books,
            stopped: Bell::default(),
        }
    }

    /// What other processes of this host need to read it by themselves.
    pub(super) fn share(&self) -> Option<SharedSegment> {
        let slots = Arc::clone(self.slots.as_ref()?);
        Some(SharedSegment { region: Arc::clone(&self.region), slots })
    }

    /// Tells other processes that what they have mapped is no longer lent. Its memory goes later.
    pub(super) fn close(&self) {
        if let Some(slots) = &self.slots {
            slots.close();
        }
    }

    /// The segment's incarnation.
    #[must_use]
    pub const fn id(&self) -> SegmentId {
        self.id
    }

    /// Its length in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.region.len()
    }

    /// Tells whether anybody still holds the memory.
    pub(super) fn watch_memory(&self) -> Weak<Region> {
        Arc::downgrade(&self.region)
    }

    pub(super) fn region(&self) -> &Region {
        &self.region
    }

    pub(super) fn frontier(&self) -> &Frontier {
        &self.frontier
    }

    /// Takes a range, or a part of one, for a writer, and waits, `patience` at most, for older writers in it to stop.
    pub(super) fn begin_write(
        &self,
        range: &RangeWrite<'_>,
        interrupt: Arc<dyn Interrupt>,
        patience: Duration,
    ) -> Result<WriteTicket, ErrorCode> {
        let mut books = self.lock();
        let begun = books.ledger.begin(range)?;
        // Before this writer, or one that it waits for, can have changed a byte of what others read by themselves.
        if let Some(slots) = &self.slots {
            begun.dropped.iter().for_each(|&offset| slots.withdraw(offset));
        }
        self.frontier.reach(range.offset + range.from + range.len);
        books.interrupts.insert(begun.ticket, interrupt);
        // Under the lock, so that none of them ends meanwhile and something else is interrupted in its place.
        for interrupt in books.interrupts_of(&begun.superseded) {
            interrupt.interrupt();
        }
        self.wait_for_clearance(books, begun.ticket, patience)?;
        let memory = self.region.slice(range.offset + range.from, range.len);
        let memory = memory.expect("the ledger takes no range outside of its segment");
        let region = Arc::clone(&self.region);
        Ok(WriteTicket { memory, region, id: begun.ticket, segment: self.id })
    }

    fn wait_for_clearance(
        &self,
        mut books: MutexGuard<'_, Books>,
        ticket: u64,
        patience: Duration,
    ) -> Result<(), ErrorCode> {
        let started = Instant::now();
        let refusal = loop {
            match books.ledger.clearance(ticket) {
                Clearance::Clear => return Ok(()),
                Clearance::Superseded => break ErrorCode::InvalidVersion,
                Clearance::Wait => {}
            }
            let left = patience.saturating_sub(started.elapsed());
            if left.is_zero() {
                break ErrorCode::ObjectReplicaBusy;
            }
            books = self.stopped.wait(books, left);
        };
        books.ledger.abandon(ticket);
        books.interrupts.remove(&ticket);
        self.stopped.ring();
        Err(refusal)
    }

    pub(super) fn complete_write(&self, ticket: u64, checksums: Vec<u32>) -> Result<(), ErrorCode> {
        let mut books = self.lock();
        books.interrupts.remove(&ticket);
        let offset = books.ledger.offset_of(ticket);
        let completed = books.ledger.complete(ticket, checksums);
        if completed.is_ok() {
            self.publish(&books.ledger, offset);
        }
        self.stopped.ring();
        completed
    }

    /// Lets other processes read the entry that starts here by themselves, if all of it is there.
    fn publish(&self, ledger: &Ledger, offset: u64) {
        if let (Some(slots), Some(entry)) = (&self.slots, ledger.complete_at(offset)) {
            let (len, version, object_offset) = (entry.len, entry.version, entry.object_offset);
            slots.publish(&SlotRow { offset, len, version, object_offset });
        }
    }

    pub(super) fn abandon_write(&self, ticket: u64) {
        let mut books = self.lock();
        books.interrupts.remove(&ticket);
        books.ledger.abandon(ticket);
        self.stopped.ring();
    }

    pub(super) fn begin_read(&self, range: &RangeRead) -> Result<ReadTicket, ErrorCode> {
        let Held { grant, checksums } = self.lock().ledger.read(range)?;
        let memory = self.region.slice(range.offset + range.from, range.len);
        let memory = memory.expect("the ledger holds no range outside of its segment");
        let RangeRead { segment, offset, version, .. } = *range;
        let region = Arc::clone(&self.region);
        Ok(ReadTicket { memory, region, checksums, segment, offset, version, grant })
    }

    pub(super) fn drop_version(&self, offset: u64, version: Version) {
        let mut books = self.lock();
        books.ledger.drop_version(offset, version);
        if let (Some(slots), None) = (&self.slots, books.ledger.complete_at(offset)) {
            slots.withdraw(offset);
        }
    }

    pub(super) fn still_holds(&self, ticket: &ReadTicket) -> bool {
        self.lock().ledger.still_holds(ticket.offset, ticket.version, ticket.grant)
    }

    fn lock(&self) -> MutexGuard<'_, Books> {
        self.books.lock().expect("no holder of the ledger panicked")
    }
}

impl Drop for Segment {
    /// Before its memory is given back: others would find other bytes where the table says that theirs lie.
    fn drop(&mut self) {
        self.close();
    }
}

impl Books {
    fn interrupts_of(&self, tickets: &[u64]) -> Vec<Arc<dyn Interrupt>> {
        tickets.iter().filter_map(|ticket| self.interrupts.get(ticket)).map(Arc::clone).collect()
    }
}
