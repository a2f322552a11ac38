//! Promotion: an object whose replicas all lie on disks gets a replica in memory, because it is read or a caller asks
//! for it.

use mooncake_types::{ErrorCode, Medium, Prefetch};

use crate::Meta;
use crate::objects::check_key;
use crate::replication::Heat;
use crate::segments::Pieces;
use crate::tasks::{NewTask, Origin};

/// The window within which reads of an object on disks are counted.
const WINDOW_MS: u64 = 600_000;
/// How long an object is skipped after its promotion began or was refused.
const REST_MS: u64 = 1_000;

/// The counts of reads of objects on disks. `None` if objects are promoted only when a caller asks for it.
pub(crate) fn disk_heat(on_hit: bool) -> Option<Heat> {
    on_hit.then(|| Heat::new(WINDOW_MS))
}

impl Meta {
    /// Begins to copy an object to memory, unless it can be read there.
    pub(crate) fn prefetch(&mut self, key: &str) -> Result<Prefetch, ErrorCode> {
        check_key(key)?;
        let object = self.find_finished(key)?;
        if self.is_in_memory(object) {
            return Ok(Prefetch::InMemory);
        }
        self.promote(object).map(|()| Prefetch::UnderWay)
    }

    /// Counts reads of an object that cannot be read from memory, and promotes the object if it is hot.
    pub(crate) fn note_disk_reads(&mut self, object: u32, reads: u32) {
        if self.disk_heat.is_none() || self.is_in_memory(object) {
            return;
        }
        let hash = self.index.hash(&self.objects[object].key);
        let Some(heat) = self.disk_heat.as_mut() else { return };
        let spot = heat.note(hash, reads, self.now);
        let is_hot = spot.reads >= self.config.promotion_admission_threshold;
        if is_hot && spot.quiet_until <= self.now {
            spot.quiet_until = self.now.after_ms(REST_MS);
            if self.promote(object).is_err() {
                self.counters.promotions_refused += 1;
            }
        }
    }

    /// Whether an object can be read from memory.
    pub(crate) fn is_in_memory(&self, object: u32) -> bool {
        self.memory_replicas(object) & !self.unreadable_replicas(object) != 0
    }

    /// Begins a copy of an object to memory, unless one is under way.
    fn promote(&mut self, object: u32) -> Result<(), ErrorCode> {
        match self.task_origin(object) {
            Some(Origin::Promotion) => return Ok(()),
            Some(_) => return Err(ErrorCode::ObjectHasReplicationTask),
            None if self.tasks.under_way(Origin::Promotion)
                >= self.config.promotion_queue_limit =>
            {
                return Err(ErrorCode::TaskPendingLimitExceeded);
            }
            None => {}
        }
        let (_, assigned) = self.copy_source(object, None).ok_or(ErrorCode::ReplicaNotFound)?;
        self.submit_task(NewTask::copy(Origin::Promotion, object, &[], assigned));
        Ok(())
    }

    /// Reserves ranges in memory for a promoted replica, and evicts as a put does. It prefers memory of the node that
    /// reads the disk.
    pub(crate) fn place_promoted(&mut self, object: u32, near: u32) -> Option<Pieces> {
        let client = self.segments[near].client;
        let mut near = self.segments.of_client(client).to_vec();
        near.retain(|&slot| self.segments[slot].medium == Medium::Memory);
        self.place_near(object, near)
    }
}
