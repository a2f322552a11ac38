use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mooncake_tier::{Notes, RecordId, RecordStore, Usage};
use mooncake_transfer::{Interrupt, ReadTicket, WriteTicket};
use mooncake_types::{
    ClientId, Epoch, ErrorCode, Medium, RangeRead, RangeWrite, SegmentId, Version,
};

use super::durability::{BROKEN, Durability, PATIENCE};
use super::health::{DiskHealth, DiskLosses, LossCause};
use super::identity::Identity;
use super::open_entry::OpenEntry;
use super::staging::Staging;
use crate::ledger::Ledger;
use crate::locked_machine::{AnyLockedMachine, EffectCarrier, HostEffect, LockedMachine, Machine};
use crate::machine::Effect;
use crate::shell::SegmentShell;

/// Longest time between two checks whether older writers have stopped.
const RECHECK_INTERVAL: Duration = Duration::from_millis(100);

/// One lent segment whose bytes lie in a folder, or in an object store.
pub struct DiskSegment {
    client: ClientId,
    run: u64,
    capacity_bytes: u64,
    /// Its folder, if it lies in a filesystem.
    pub(super) folder: Option<PathBuf>,
    medium: Medium,
    pub(super) disk: Arc<dyn RecordStore>,
    pub(super) staging: Arc<Staging>,
    pub(super) machine: LockedMachine<DiskEntries>,
    pub(super) durability: Arc<Durability>,
    pub(super) health: DiskHealth,
}

/// The records and unfinished writes of a ledger's entries.
pub(super) struct DiskEntries {
    durability: Arc<Durability>,
    /// Grants of the records of complete entries, by the offset of the entry.
    pub(super) records: BTreeMap<u64, Version>,
    /// Entries that are being written, by offset.
    pub(super) open: BTreeMap<u64, OpenEntry>,
    /// Tickets of writers whose record is being appended, and when that began.
    pub(super) appending: BTreeMap<u64, Instant>,
}

impl DiskEntries {
    /// When the oldest append began whose writer was superseded; `None` if there is none.
    fn superseded_append_since(&self, ledger: &Ledger) -> Option<Instant> {
        let superseded = self.appending.iter().filter(|(ticket, _)| ledger.is_superseded(**ticket));
        superseded.map(|(_, &since)| since).min()
    }
}

impl EffectCarrier for DiskEntries {
    /// Queues the change that an effect asks for.
    fn carry_out(&mut self, effect: &HostEffect<'_>) {
        match *effect {
            Effect::RemoveRow { offset } => {
                if let Some(grant) = self.records.remove(&offset) {
                    self.durability.erase(RecordId { grant, offset });
                }
            }
            // The record was appended already.
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

    /// Releases the staging memory of entries whose write has ended.
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
        let (run, capacity_bytes) = (identity.run, identity.capacity_bytes);
        let durability = Arc::new(Durability::new(notes, identity));
        let entries = DiskEntries { durability: Arc::clone(&durability), records, open, appending };
        Self {
            client,
            run,
            capacity_bytes,
            folder: None,
            medium,
            disk,
            staging,
            machine: LockedMachine::new(machine, entries),
            durability,
            health: DiskHealth::default(),
        }
    }

    /// The client id of the node: from the folder's note, or the given one if the disk was new.
    #[must_use]
    pub const fn client(&self) -> ClientId {
        self.client
    }

    /// The present id of the segment. It changes when the segment starts empty.
    #[must_use]
    pub fn id(&self) -> SegmentId {
        self.machine.id()
    }

    /// How many processes of its client have opened it, this one included; see [`Host::run`](crate::Host::run).
    #[must_use]
    pub const fn run(&self) -> u64 {
        self.run
    }

    /// Its folder, if it lies in a filesystem.
    #[must_use]
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// The medium: a disk of this node, a disk that hosts share, or an object store.
    #[must_use]
    pub const fn medium(&self) -> Medium {
        self.medium
    }

    /// Length of the address space in which the master may grant ranges.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.look(Ledger::len)
    }

    /// Most bytes that its files take, or that it keeps in an object store.
    #[must_use]
    pub const fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    /// How much its files hold.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.disk.usage()
    }

    /// Whether the disk has failed. Then nothing more is written or dropped, and the segment must be taken
    /// back. The next process that opens the disk finds it empty, under a new id.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.durability.failure().is_some() || self.disk.is_broken()
    }

    /// Why the disk has failed; `None` if it has not.
    #[must_use]
    pub fn failure(&self) -> Option<Arc<str>> {
        let unknown = || self.disk.is_broken().then(|| "an error of the disk".into());
        self.durability.failure().or_else(unknown)
    }

    /// What the disk has lost so far, and how many reads it failed.
    #[must_use]
    pub fn losses(&self) -> DiskLosses {
        let losses = self.health.losses();
        DiskLosses { failed_reads: losses.failed_reads + self.disk.unreadable(), ..losses }
    }

    /// Drops the entries of records that the disk has lost. Returns how many there were.
    pub(super) fn lose(&self, names: &[RecordId], cause: LossCause) -> u64 {
        let is_lost = |name: &&RecordId| {
            let RecordId { grant, offset } = **name;
            self.machine.change(|machine, effects| machine.lose(offset, grant, effects))
        };
        let lost = names.iter().filter(is_lost).count() as u64;
        self.health.on_loss(cause, lost);
        lost
    }

    pub(crate) fn look<T>(&self, look: impl FnOnce(&Ledger) -> T) -> T {
        self.machine.look(look)
    }

    /// Returns once no superseded writer has a record that is being appended.
    ///
    /// # Errors
    /// [`BROKEN`] if an object store has not taken that record for [`PATIENCE`]. The record is erased once it
    /// is there.
    fn outlast_superseded_appends(&self) -> Result<(), ErrorCode> {
        let mut locked = self.machine.lock();
        while let Some(since) = locked.carrier.superseded_append_since(locked.machine.ledger()) {
            if self.disk.is_remote() && since.elapsed() >= PATIENCE {
                return Err(BROKEN);
            }
            locked = self.machine.stopped.wait(locked, RECHECK_INTERVAL);
        }
        Ok(())
    }
}

impl Drop for DiskSegment {
    /// Waits for the writer thread, so that any process may open the disk at once.
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

    /// Also erases each record that was being appended when its writer was superseded.
    fn settle(&self) -> Result<(), ErrorCode> {
        let stopped = self.outlast_superseded_appends();
        // Settle even if that failed: queued changes must not wait for a store that takes no record now.
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

    /// The store has the checksums of all whole chunks already.
    fn learn_checksums(&self, ticket: &ReadTicket, _checksums: &[u32]) -> bool {
        self.machine.still_holds(ticket)
    }
}
