//! Writing: bytes arrive in staging memory, and the node appends a record when the last part of its entry is
//! there. A whole entry that lies in memory of this process is appended from there.

use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use mooncake_memory::{RawSlice, Region, SliceList};
use mooncake_tier::{PutError, Record, RecordId};
use mooncake_transfer::{Interrupt, WriteTicket};
use mooncake_types::limits::CHUNK_BYTES;
use mooncake_types::{Epoch, ErrorCode, RangeWrite};

use super::durability::BROKEN;
use super::health::LossCause;
use super::open_entry::OpenEntry;
use super::segment::{DiskEntries, DiskSegment};
use crate::locked_machine::{AnyLockedMachine, Locked};
use crate::machine::WriteRequest;

/// Most times that a record is appended again after room was made for it: other writers may take the room
/// first.
const MOST_TRIES: usize = 32;

/// An entry whose last part is there.
struct Finished {
    record: Record,
    region: Arc<Region>,
    was_appended: bool,
}

impl DiskSegment {
    /// Takes a range, or a part of one. Waits at most `patience` for staging memory, then as long for older
    /// writers to stop.
    pub(super) fn begin(
        &self,
        (epoch, range): (Epoch, &RangeWrite<'_>),
        writer: Arc<dyn Interrupt>,
        patience: Duration,
    ) -> Result<WriteTicket, ErrorCode> {
        self.check_writable(range)?;
        let shared = region_of(&self.machine.lock(), range);
        let region = match shared {
            Some(region) => region,
            None => self.staging.take(range.entry_len, patience)?,
        };
        let now = Instant::now();
        let request = WriteRequest { epoch, range, writer, now, until: now + patience };
        let mut locked = self.machine.lock();
        let ticket = locked.change(|machine, effects| machine.begin(request, effects))?;
        self.machine.stopped.wake_all();
        // If another part began first, use its memory.
        let open = OpenEntry { grant: range.grant, region, was_appended: false };
        let region = Arc::clone(&locked.carrier.open.entry(range.offset).or_insert(open).region);
        self.machine.wait_for_admission(locked, ticket, now)?;
        if let Err(code) = self.durability.settle(&self.disk) {
            self.machine.abandon(ticket);
            return Err(code);
        }
        let memory = region.hold(range.from, range.len);
        let memory = memory.expect("the ledger takes no part outside of its entry");
        Ok(WriteTicket { memory, id: ticket, segment: range.segment })
    }

    /// Writes a whole entry from memory that must not change meanwhile. The entry is on the disk when this
    /// returns.
    pub(crate) fn write_in_place(
        &self,
        (epoch, range): (Epoch, &RangeWrite<'_>),
        bytes: RawSlice<'_>,
        writer: Arc<dyn Interrupt>,
        patience: Duration,
    ) -> Result<(), ErrorCode> {
        self.check_writable(range)?;
        let now = Instant::now();
        let request = WriteRequest { epoch, range, writer, now, until: now + patience };
        let mut locked = self.machine.lock();
        let ticket = locked.change(|machine, effects| machine.begin(request, effects))?;
        self.machine.stopped.wake_all();
        self.machine.wait_for_admission(locked, ticket, now)?;
        // Wait for queued erasures: one of a record with the same name would erase this record.
        if let Err(code) = self.durability.settle(&self.disk) {
            self.machine.abandon(ticket);
            return Err(code);
        }
        let mut locked = self.machine.lock();
        let Some(mut record) = record_of(&locked, ticket) else {
            return self.complete_part(locked, ticket);
        };
        locked.carrier.appending.insert(ticket, Instant::now());
        drop(locked);
        record.checksums = bytes.chunk_crcs().into();
        let appended = self.append(&record, &SliceList::from(bytes));
        self.complete_entry(ticket, &record, appended)
    }

    fn check_writable(&self, range: &RangeWrite<'_>) -> Result<(), ErrorCode> {
        match range.entry_len <= self.disk.longest_record() {
            _ if self.is_broken() => Err(BROKEN),
            true => Ok(()),
            false => Err(ErrorCode::InvalidWrite),
        }
    }

    /// Completes a part whose bytes are in staging memory. If no other part is missing, the entry is on the
    /// disk when this returns.
    pub(super) fn complete(
        &self,
        ticket: &WriteTicket,
        checksums: Vec<u32>,
    ) -> Result<(), ErrorCode> {
        let mut locked = self.machine.lock();
        let Some(Finished { mut record, region, was_appended }) = finish(&mut locked, ticket.id)
        else {
            return self.complete_part(locked, ticket.id);
        };
        locked.carrier.appending.insert(ticket.id, Instant::now());
        drop(locked);
        let is_whole = ticket.memory.len() as u64 == record.len;
        let are_all = is_whole && checksums.len() as u64 == record.len.div_ceil(CHUNK_BYTES);
        let checksums = if are_all { checksums } else { region.whole().chunk_crcs() };
        record.checksums = checksums.into();
        // Wait for queued erasures: one of a record with the same name would erase this record.
        let settled = if was_appended { self.durability.settle(&self.disk) } else { Ok(()) };
        let data = SliceList::from(region.whole());
        let appended = settled.and_then(|()| self.append(&record, &data));
        self.complete_entry(ticket.id, &record, appended)
    }

    /// Ends a part while other parts are missing, or after its writer was superseded.
    fn complete_part(
        &self,
        mut locked: MutexGuard<'_, Locked<DiskEntries>>,
        ticket: u64,
    ) -> Result<(), ErrorCode> {
        let completed =
            locked.change(|machine, effects| machine.complete(ticket, Vec::new(), effects));
        self.machine.stopped.wake_all();
        completed
    }

    /// Ends the last part of an entry, after the attempt to append its record.
    fn complete_entry(
        &self,
        ticket: u64,
        record: &Record,
        appended: Result<(), ErrorCode>,
    ) -> Result<(), ErrorCode> {
        let mut locked = self.machine.lock();
        locked.carrier.appending.remove(&ticket);
        let completed = locked.change(|machine, effects| match appended {
            // The store keeps the checksums.
            Ok(()) => machine.complete(ticket, Vec::new(), effects),
            Err(code) => {
                machine.abandon(ticket);
                Err(code)
            }
        });
        let RecordId { grant, offset } = record.name;
        if appended.is_ok() && locked.carrier.records.get(&offset) != Some(&grant) {
            self.durability.erase(record.name);
        }
        self.machine.stopped.wake_all();
        completed
    }

    fn append(&self, record: &Record, data: &SliceList) -> Result<(), ErrorCode> {
        for _ in 0..MOST_TRIES {
            match self.disk.put(record, data) {
                Ok(()) => return Ok(()),
                Err(PutError::Full) => self.make_room(record.len)?,
                Err(PutError::Broken(broken)) => {
                    self.durability.fail(&broken.to_string());
                    return Err(BROKEN);
                }
                Err(PutError::Unreachable(reason)) => {
                    if let Some(more) = self.health.admit("an object store does not answer") {
                        tracing::warn!(%reason, more, "an object was not stored");
                    }
                    // It is unknown whether the store has the record.
                    self.durability.erase(record.name);
                    return Err(BROKEN);
                }
                Err(PutError::TooLong { .. } | PutError::Malformed) => {
                    return Err(ErrorCode::InvalidWrite);
                }
            }
        }
        if let Some(more) = self.health.admit("nothing can go") {
            tracing::warn!(
                more,
                "a disk is full of what others wrote there, and nothing of it can go"
            );
        }
        Err(ErrorCode::NoAvailableHandle)
    }

    /// Has the store give up space. Records that it evicts are lost, although the master still names them.
    fn make_room(&self, bytes: u64) -> Result<(), ErrorCode> {
        let evicted = self.disk.make_room(bytes).map_err(|broken| {
            self.durability.fail(&broken.to_string());
            BROKEN
        })?;
        let lost = self.lose(&evicted, LossCause::NoRoom);
        if lost > 0
            && let Some(more) = self.health.admit("no room")
        {
            let all = self.losses().no_room;
            tracing::warn!(
                lost,
                all,
                more,
                "objects left a disk for want of room: others have filled its filesystem, or its objects are very short"
            );
        }
        Ok(())
    }
}

/// The staging memory of a range's entry, if another part of it has begun.
fn region_of(locked: &Locked<DiskEntries>, range: &RangeWrite<'_>) -> Option<Arc<Region>> {
    let open = locked.carrier.open.get(&range.offset);
    let is_same =
        |open: &&OpenEntry| open.grant == range.grant && open.region.len() == range.entry_len;
    open.filter(is_same).map(|open| Arc::clone(&open.region))
}

/// The record and the staging memory of a writer's entry; see [`record_of`].
fn finish(locked: &mut Locked<DiskEntries>, ticket: u64) -> Option<Finished> {
    let record = record_of(locked, ticket)?;
    let open = locked.carrier.open.get_mut(&record.name.offset);
    let open = open.expect("an entry that is written has memory");
    let was_appended = std::mem::replace(&mut open.was_appended, true);
    Some(Finished { record, region: Arc::clone(&open.region), was_appended })
}

/// The record of a writer's entry, without checksums. `None` if another part is missing or the writer was
/// superseded.
fn record_of(locked: &Locked<DiskEntries>, ticket: u64) -> Option<Record> {
    let entry = locked.machine.ledger().finished_by(ticket)?;
    let offset = locked.machine.ledger().offset_of(ticket);
    Some(Record {
        name: RecordId { grant: entry.grant, offset },
        version: entry.version,
        key: entry.key.clone(),
        attributes: entry.attributes.clone(),
        object_len: entry.object_len,
        object_offset: entry.object_offset,
        len: entry.len,
        checksums: Box::default(),
    })
}
