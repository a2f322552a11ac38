use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mooncake_tier::{Name, Notes, RecordStore, Usage};
use mooncake_transfer::{Interrupt, ReadTicket, WriteTicket};
use mooncake_types::{
    ClientId, Epoch, ErrorCode, Medium, RangeRead, RangeWrite, SegmentId, Version,
};

use super::durability::{BROKEN, Durability, PATIENCE};
use super::identity::Identity;
use super::open_entry::OpenEntry;
use super::staging::Staging;
use crate::ledger::Ledger;
use crate::locked_machine::{AnyLockedMachine, EffectCarrier, HostEffect, LockedMachine, Machine};
use crate::machine::Effect;
use crate::shell::SegmentShell;

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
    pub(super) machine: LockedMachine<DiskEntries>,
    pub(super) durability: Arc<Durability>,
    /// Entries that the disk has lost.
    losses: AtomicU64,
}

/// What a disk has of the entries of its ledger.
pub(super) struct DiskEntries {
    durability: Arc<Durability>,
    /// The grants of the records of complete entries, by where these start.
    pub(super) records: BTreeMap<u64, Version>,
    /// Entries that are being written, by where they start.
    pub(super) open: BTreeMap<u64, OpenEntry>,
    /// Tickets of writers whose record is being appended, and since when.
    pub(super) appending: BTreeMap<u64, Instant>,
}

impl DiskEntries {
    /// Since when a record is being appended whose writer was told to stop. Of several the oldest counts.
    fn superseded_append_since(&self, ledger: &Ledger) -> Option<Instant> {
        let superseded = self.appending.iter().filter(|(ticket, _)| ledger.is_superseded(**ticket));
        superseded.map(|(_, &since)| since).min()
    }
}

impl EffectCarrier for DiskEntries {
    /// Queues what an effect says.
    fn carry_out(&mut self, effect: &HostEffect<'_>) {
        match *effect {
            Effect::RemoveRow { offset } => {
                if let Some(grant) = self.records.remove(&offset) {
                    self.durability.erase(Name { grant, offset });
                }
            }
            // The record was appended before.
            Effect::AddRow { offset, entry } => {
                self.records.insert(offset, entry.grant);
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

    /// Forgets the staging memory of entries that are not written any more.
    fn on_changed(&mut self, ledger: &Ledger) {
        self.open.retain(|&offset, entry| ledger.is_written(offset, entry.grant));
    }
}

impl DiskSegment {
    pub(super) fn of_parts(
        (machine, records): (Machine, BTreeMap<u64, Version>),
        (medium, disk): (Medium, Arc<dyn RecordStore>),
        staging: Arc<Staging>,
        (notes, identity): (Arc<dyn Notes>, Identity),
    ) -> Self {
        let (open, appending) = (BTreeMap::new(), BTreeMap::new());
        let client = identity.client;
        let run = identity.run;
        let durability = Arc::new(Durability::new(notes, identity));
        let entries = DiskEntries { durability: Arc::clone(&durability), records, open, appending };
        Self {
            client,
            run,
            folder: None,
            medium,
            disk,
            staging,
            machine: LockedMachine::new(machine, entries),
            durability,
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
        self.machine.id()
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

    /// The disk has these records no more: what the ledger says of them is wrong.
    pub(super) fn lose(&self, names: &[Name]) {
        for &Name { grant, offset } in names {
            let is_lost =
                self.machine.change(|machine, effects| machine.lose(offset, grant, effects));
            self.losses.fetch_add(u64::from(is_lost), Ordering::Relaxed);
        }
    }

    pub(crate) fn look<T>(&self, look: impl FnOnce(&Ledger) -> T) -> T {
        self.machine.look(look)
    }

    /// Returns once no record is being appended whose writer was told to stop.
    ///
    /// # Errors
    /// [`BROKEN`]: an object store has not taken one for [`PATIENCE`]. It is erased once it is there.
    fn outlast_superseded_appends(&self) -> Result<(), ErrorCode> {
        let mut locked = self.machine.lock();
        while let Some(since) = locked.carrier.superseded_append_since(locked.machine.ledger()) {
            if self.disk.is_far() && since.elapsed() >= PATIENCE {
                return Err(BROKEN);
            }
            locked = self.machine.stopped.wait(locked, LOOK);
        }
        Ok(())
    }
}

impl Drop for DiskSegment {
    /// The next process, or this one, may open it at once.
    fn drop(&mut self) {
        self.durability.end();
    }
}

impl SegmentShell for DiskSegment {
    fn machine(&self) -> &dyn AnyLockedMachine {
        &self.machine
    }

    fn start_empty(&self, id: SegmentId) {
        self.machine.change(|machine, effects| machine.start_empty(id, effects));
    }

    /// A record that was being appended when its writer was told to stop is erased, too.
    fn settle(&self) -> Result<(), ErrorCode> {
        let stopped = self.outlast_superseded_appends();
        // Whatever came of that: what is queued must not wait for a store that takes no record now.
        let settled = self.durability.settle(&self.disk);
        stopped.and(settled)
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

    fn begin_read(&self, range: &RangeRead) -> Result<ReadTicket, ErrorCode> {
        self.read(range)
    }

    /// The log has the checksums of all whole chunks already.
    fn learn_checksums(&self, ticket: &ReadTicket, _checksums: &[u32]) -> bool {
        self.machine.still_holds(ticket)
    }
}
