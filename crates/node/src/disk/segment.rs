use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use mooncake_tier::{Name, Notes, RecordStore, Usage};
use mooncake_transfer::{Interrupt, ReadTicket, WriteTicket};
use mooncake_types::{
    ClientId, Epoch, ErrorCode, Medium, RangeDrop, RangeRead, RangeWrite, SegmentId, Version,
};

use super::durability::Durability;
use super::identity::Identity;
use super::staging::Staging;
use super::writing::OpenEntry;
use crate::ledger::Ledger;
use crate::machine::{Effect, SegmentMachine};
use crate::shell::SegmentShell;
use crate::signal::Signal;

/// Longest time between two looks at whether older writers have stopped.
const LOOK: Duration = Duration::from_millis(100);

/// One lent segment whose bytes lie in a folder, or in an object store.
pub struct DiskSegment {
    client: ClientId,
    run: u64,
    /// Where it lies, if in a folder of the filesystem.
    pub(super) folder: Option<PathBuf>,
    medium: Medium,
    pub(super) disk: Arc<dyn RecordStore>,
    pub(super) staging: Arc<Staging>,
    pub(super) locked: Mutex<Locked>,
    /// Given whenever a writer has stopped.
    pub(super) stopped: Signal,
    pub(super) durability: Arc<Durability>,
    /// Entries that the disk has lost.
    losses: AtomicU64,
}

pub(super) struct Locked {
    pub(super) machine: SegmentMachine<Arc<dyn Interrupt>>,
    /// The grants of the records of complete entries, by where these start.
    pub(super) records: BTreeMap<u64, Version>,
    /// Entries that are being written, by where they start.
    pub(super) open: BTreeMap<u64, OpenEntry>,
    /// Tickets of writers whose record is being appended.
    pub(super) appending: BTreeSet<u64>,
}

impl Locked {
    /// Forgets the staging memory of entries that are not written any more.
    pub(super) fn close_entries(&mut self) {
        let Self { machine, open, .. } = self;
        let is_written = |offset: u64, grant| machine.ledger().is_written(offset, grant);
        open.retain(|&offset, entry| is_written(offset, entry.grant));
    }

    /// Whether the record of a writer is being appended that was told to stop.
    fn is_appending_in_vain(&self) -> bool {
        self.appending.iter().any(|&ticket| self.machine.ledger().is_superseded(ticket))
    }
}

impl DiskSegment {
    pub(super) fn of_parts(
        (machine, records): (SegmentMachine<Arc<dyn Interrupt>>, BTreeMap<u64, Version>),
        (medium, disk): (Medium, Arc<dyn RecordStore>),
        staging: Arc<Staging>,
        (notes, identity): (Arc<dyn Notes>, Identity),
    ) -> Self {
        let (open, appending) = (BTreeMap::new(), BTreeSet::new());
        Self {
            client: identity.client,
            run: identity.run,
            folder: None,
            medium,
            disk,
            staging,
            locked: Mutex::new(Locked { machine, records, open, appending }),
            stopped: Signal::default(),
            durability: Arc::new(Durability::new(notes, identity)),
            losses: AtomicU64::new(0),
        }
    }

    /// What the node is to the master: what the folder kept, or what it was given when it was new.
    #[must_use]
    pub const fn client(&self) -> ClientId {
        self.client
    }

    /// The segment's incarnation.
    #[must_use]
    pub fn id(&self) -> SegmentId {
        self.lock().machine.id()
    }

    /// How many processes of its client have opened it, this one included; see [`Host::run`](crate::Host::run).
    #[must_use]
    pub const fn run(&self) -> u64 {
        self.run
    }

    /// The folder that it lies in.
    #[must_use]
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// What its bytes lie in: a disk of this node, one that hosts share, or an object store.
    #[must_use]
    pub const fn medium(&self) -> Medium {
        self.medium
    }

    /// Bytes of its address space: what the master may grant.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.look(Ledger::len)
    }

    /// What its files hold.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.disk.usage()
    }

    /// Whether the disk has failed: nothing is written or dropped any more, and the segment is to be taken back. The next
    /// process that opens it finds it empty, under a new id.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.durability.has_failed() || self.disk.is_broken()
    }

    /// How many entries the disk has lost so far: they were damaged, or their log needed the room.
    #[must_use]
    pub fn losses(&self) -> u64 {
        self.losses.load(Ordering::Relaxed)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Locked> {
        self.locked.lock().expect("no holder of the ledger panicked")
    }

    /// Has the machine change something, and wakes all that may go on since.
    pub(super) fn change<T>(
        &self,
        change: impl FnOnce(
            &mut SegmentMachine<Arc<dyn Interrupt>>,
            &mut dyn FnMut(Effect<'_, Arc<dyn Interrupt>>),
        ) -> T,
    ) -> T {
        let changed = self.change_locked(&mut self.lock(), change);
        self.stopped.wake_all();
        changed
    }

    pub(super) fn change_locked<T>(
        &self,
        locked: &mut Locked,
        change: impl FnOnce(
            &mut SegmentMachine<Arc<dyn Interrupt>>,
            &mut dyn FnMut(Effect<'_, Arc<dyn Interrupt>>),
        ) -> T,
    ) -> T {
        let Locked { machine, records, .. } = locked;
        let changed = change(machine, &mut |effect| self.carry_out(records, &effect));
        locked.close_entries();
        changed
    }

    /// Queues what an effect says.
    fn carry_out(
        &self,
        records: &mut BTreeMap<u64, Version>,
        effect: &Effect<'_, Arc<dyn Interrupt>>,
    ) {
        match *effect {
            Effect::RemoveRow { offset } => {
                if let Some(grant) = records.remove(&offset) {
                    self.durability.erase(Name { grant, offset });
                }
            }
            // The record was appended before.
            Effect::AddRow { offset, entry } => {
                records.insert(offset, entry.grant);
            }
            Effect::Rename { id } => self.durability.note(|identity| identity.segment = id),
            Effect::NoteEpoch { epoch } => self.durability.note(|identity| identity.epoch = epoch),
            Effect::Interrupt(writer) => writer.interrupt(),
            Effect::RefuseGrants { .. }
            | Effect::AddSlot { .. }
            | Effect::RemoveSlot { .. }
            | Effect::CloseSlots => {}
        }
    }

    /// The disk has these records no more: what the ledger says of them is wrong.
    pub(super) fn lose(&self, names: &[Name]) {
        for &Name { grant, offset } in names {
            let is_lost = self.change(|machine, effects| machine.lose(offset, grant, effects));
            self.losses.fetch_add(u64::from(is_lost), Ordering::Relaxed);
        }
    }

    pub(crate) fn look<T>(&self, look: impl FnOnce(&Ledger) -> T) -> T {
        look(self.lock().machine.ledger())
    }
}

impl Drop for DiskSegment {
    /// The next process, or this one, may open it at once.
    fn drop(&mut self) {
        self.durability.end();
    }
}

impl SegmentShell for DiskSegment {
    fn epoch(&self) -> Epoch {
        self.lock().machine.epoch()
    }

    fn obey(&self, epoch: Epoch) {
        self.change(|machine, effects| machine.obey(epoch, effects));
    }

    fn start_empty(&self, id: SegmentId) {
        self.change(|machine, effects| machine.start_empty(id, effects));
    }

    /// A record that was being appended when its writer was told to stop is erased, too.
    fn settle(&self) -> Result<(), ErrorCode> {
        let mut locked = self.lock();
        while locked.is_appending_in_vain() {
            locked = self.stopped.wait(locked, LOOK);
        }
        drop(locked);
        self.durability.settle(&self.disk)
    }

    fn take_back(&self) {
        self.change(|machine, effects| machine.take_back(Instant::now(), effects));
    }

    fn begin_write(
        &self,
        write: (Epoch, &RangeWrite<'_>),
        writer: Arc<dyn Interrupt>,
        patience: Duration,
    ) -> Result<WriteTicket, ErrorCode> {
        self.begin(write, writer, patience)
    }

    fn complete_write(&self, ticket: WriteTicket, checksums: Vec<u32>) -> Result<(), ErrorCode> {
        self.complete(&ticket, checksums)
    }

    fn abandon_write(&self, ticket: WriteTicket) {
        self.change(|machine, _| machine.abandon(ticket.id));
    }

    fn begin_read(&self, range: &RangeRead) -> Result<ReadTicket, ErrorCode> {
        self.read(range)
    }

    fn drop_entry(&self, range: &RangeDrop) -> Result<(), ErrorCode> {
        self.change(|machine, effects| machine.drop_entry(range, Instant::now(), effects))
    }

    fn still_holds(&self, ticket: &ReadTicket) -> bool {
        let ReadTicket { offset, version, grant, .. } = *ticket;
        self.look(|ledger| ledger.still_holds(offset, version, grant))
    }

    /// The log has the checksums of all whole chunks already.
    fn learn_checksums(&self, ticket: &ReadTicket, _checksums: &[u32]) -> bool {
        self.still_holds(ticket)
    }
}
