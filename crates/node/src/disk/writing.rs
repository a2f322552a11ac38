//! Writing: bytes arrive in staging memory, and become a record when the last part of their entry is there.

use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use mooncake_memory::{Region, SliceList};
use mooncake_tier::{Name, PutError, Record};
use mooncake_transfer::{Interrupt, WriteTicket};
use mooncake_types::limits::CHUNK_BYTES;
use mooncake_types::{Epoch, ErrorCode, RangeWrite, Version};

use super::durability::BROKEN;
use super::segment::{DiskSegment, Locked};
use crate::machine::{Admission, WriteRequest};

/// Most times that a record is appended again after room was made for it: other writers may take that first.
const MOST_TRIES: usize = 32;

/// An entry that is being written.
pub(super) struct OpenEntry {
    pub(super) grant: Version,
    /// The bytes of the whole entry.
    region: Arc<Region>,
    /// A record was appended that did not become the entry's: a part of it was to be written again.
    was_appended: bool,
}

/// An entry of which the last part is there.
struct Finished {
    record: Record,
    region: Arc<Region>,
    was_appended: bool,
}

impl DiskSegment {
    /// Takes a range, or a part of one, and waits, `patience` at most, for staging memory and for older writers to stop.
    pub(super) fn begin(
        &self,
        (epoch, range): (Epoch, &RangeWrite<'_>),
        writer: Arc<dyn Interrupt>,
        patience: Duration,
    ) -> Result<WriteTicket, ErrorCode> {
        if self.is_broken() {
            return Err(BROKEN);
        }
        if range.entry_len > self.disk.longest_record() {
            return Err(ErrorCode::InvalidWrite);
        }
        let shared = self.lock().region_of(range);
        let region = match shared {
            Some(region) => region,
            None => self.staging.take(range.entry_len, patience)?,
        };
        let now = Instant::now();
        let request = WriteRequest { epoch, range, writer, now, until: now + patience };
        let mut locked = self.lock();
        let ticket =
            self.change_locked(&mut locked, |machine, effects| machine.begin(request, effects))?;
        self.stopped.wake_all();
        // Another part may have come first.
        let open = OpenEntry { grant: range.grant, region, was_appended: false };
        let region = Arc::clone(&locked.open.entry(range.offset).or_insert(open).region);
        self.wait_for_admission(locked, ticket)?;
        if let Err(code) = self.durability.settle(&self.disk) {
            self.change(|machine, _| machine.abandon(ticket));
            return Err(code);
        }
        let memory = region.slice(range.from, range.len);
        let memory = memory.expect("the ledger takes no part outside of its entry");
        Ok(WriteTicket { memory, region, id: ticket, segment: range.segment })
    }

    fn wait_for_admission(
        &self,
        mut locked: MutexGuard<'_, Locked>,
        ticket: u64,
    ) -> Result<(), ErrorCode> {
        loop {
            match locked.machine.admit(ticket, Instant::now()) {
                Admission::Granted => return Ok(()),
                Admission::Wait(left) => locked = self.stopped.wait(locked, left),
                Admission::Refused(code) => {
                    locked.close_entries();
                    self.stopped.wake_all();
                    return Err(code);
                }
            }
        }
    }

    /// All bytes of a part are in staging memory. If no other is missing, they are on the disk when this returns.
    pub(super) fn complete(
        &self,
        ticket: &WriteTicket,
        checksums: Vec<u32>,
    ) -> Result<(), ErrorCode> {
        let mut locked = self.lock();
        let Some(Finished { mut record, region, was_appended }) = locked.finish(ticket.id) else {
            let completed = self.change_locked(&mut locked, |machine, effects| {
                machine.complete(ticket.id, Vec::new(), effects)
            });
            self.stopped.wake_all();
            return completed;
        };
        locked.appending.insert(ticket.id);
        drop(locked);
        let is_whole = ticket.memory.len() as u64 == record.len;
        let are_all = is_whole && checksums.len() as u64 == record.len.div_ceil(CHUNK_BYTES);
        let checksums = if are_all { checksums } else { region.whole().chunk_crcs() };
        record.checksums = checksums.into();
        // The erasure of one with the same name would take this one for it.
        let settled = if was_appended { self.durability.settle(&self.disk) } else { Ok(()) };
        let appended = settled.and_then(|()| self.append(&record, &region));
        let mut locked = self.lock();
        locked.appending.remove(&ticket.id);
        let completed = self.change_locked(&mut locked, |machine, effects| match appended {
            // The log has the checksums.
            Ok(()) => machine.complete(ticket.id, Vec::new(), effects),
            Err(code) => {
                machine.abandon(ticket.id);
                Err(code)
            }
        });
        let Name { grant, offset } = record.name;
        if appended.is_ok() && locked.records.get(&offset) != Some(&grant) {
            self.durability.erase(record.name);
        }
        self.stopped.wake_all();
        completed
    }

    fn append(&self, record: &Record, region: &Region) -> Result<(), ErrorCode> {
        let data = SliceList::from(region.whole());
        for _ in 0..MOST_TRIES {
            match self.disk.put(record, &data) {
                Ok(()) => return Ok(()),
                Err(PutError::Full) => self.make_room(record.len)?,
                Err(PutError::Broken(_)) => {
                    self.durability.fail();
                    return Err(BROKEN);
                }
                Err(PutError::Unreachable(reason)) => {
                    tracing::warn!(%reason, "an object was not stored");
                    // Nobody knows whether it is there.
                    self.durability.erase(record.name);
                    return Err(BROKEN);
                }
                Err(PutError::TooLong { .. } | PutError::Malformed) => {
                    return Err(ErrorCode::InvalidWrite);
                }
            }
        }
        tracing::warn!("a disk is full of what others wrote there, and nothing of it can go");
        Err(ErrorCode::NoAvailableHandle)
    }

    /// Has the log give up space. What is evicted for want of any other is lost, although the master still names it.
    fn make_room(&self, bytes: u64) -> Result<(), ErrorCode> {
        let evicted = self.disk.make_room(bytes).map_err(|_| {
            self.durability.fail();
            BROKEN
        })?;
        self.lose(&evicted);
        Ok(())
    }
}

impl Locked {
    /// The staging memory of the entry that a part belongs to, if another part of it has begun.
    fn region_of(&self, range: &RangeWrite<'_>) -> Option<Arc<Region>> {
        let open = self.open.get(&range.offset);
        let is_same =
            |open: &&OpenEntry| open.grant == range.grant && open.region.len() == range.entry_len;
        open.filter(is_same).map(|open| Arc::clone(&open.region))
    }

    /// The record of a writer's entry, but for its checksums, if no other part is missing and the writer was not told to stop.
    fn finish(&mut self, ticket: u64) -> Option<Finished> {
        let entry = self.machine.ledger().finished_by(ticket)?;
        let offset = self.machine.ledger().offset_of(ticket);
        let open = self.open.get_mut(&offset).expect("an entry that is written has memory");
        let record = Record {
            name: Name { grant: entry.grant, offset },
            version: entry.version,
            key: entry.key.clone(),
            attributes: entry.attributes.clone(),
            object_len: entry.object_len,
            object_offset: entry.object_offset,
            len: entry.len,
            checksums: Box::default(),
        };
        let was_appended = std::mem::replace(&mut open.was_appended, true);
        Some(Finished { record, region: Arc::clone(&open.region), was_appended })
    }
}
