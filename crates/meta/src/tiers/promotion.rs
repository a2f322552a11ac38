//! Promotion: an object that lies on disks alone gets a replica in memory, because it is read or a caller asks for it.

use mooncake_types::{ErrorCode, Medium, Prefetch, TaskKind};

use crate::Meta;
use crate::meta::check_key;
use crate::objects::ObjectState;
use crate::placement::Wish;
use crate::replication::Heat;
use crate::segments::Pieces;
use crate::tasks::{NewTask, Origin};

/// Time within which the reads of an object are counted together.
const WINDOW_MS: u64 = 600_000;
/// An object is left alone for so long once a copy was begun or refused.
const REST_MS: u64 = 1_000;

/// What is on its way to memory, and what is known of reads from disks.
#[derive(Debug)]
pub(crate) struct Promotions {
    /// Absent if objects are promoted only when a caller asks for them.
    heat: Option<Heat>,
    under_way: usize,
}

impl Promotions {
    pub(crate) fn new(on_hit: bool) -> Self {
        Self { heat: on_hit.then(|| Heat::new(WINDOW_MS)), under_way: 0 }
    }

    pub(crate) fn under_way(&self) -> usize {
        self.under_way
    }
}

impl Meta {
    /// Has an object copied to memory, unless it can be read there.
    pub(crate) fn prefetch(&mut self, key: &str) -> Result<Prefetch, ErrorCode> {
        check_key(key)?;
        let object = self.find_readable(key).ok_or(ErrorCode::ObjectNotFound)?;
        if self.objects[object].state != ObjectState::Complete {
            return Err(ErrorCode::ReplicaIsNotReady);
        }
        if self.is_in_memory(object) {
            return Ok(Prefetch::InMemory);
        }
        self.promote(object).map(|()| Prefetch::UnderWay)
    }

    /// An object was read this often: if it lies on disks alone, that counts.
    pub(crate) fn note_disk_reads(&mut self, object: u32, reads: u32) {
        if self.promotions.heat.is_none() || self.is_in_memory(object) {
            return;
        }
        let hash = self.index.hash(&self.objects[object].key);
        let Some(heat) = self.promotions.heat.as_mut() else { return };
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

    /// Has a replica of an object made in memory. Nothing happens if that is under way.
    fn promote(&mut self, object: u32) -> Result<(), ErrorCode> {
        match self.task_origin(object) {
            Some(Origin::Promotion) => return Ok(()),
            Some(_) => return Err(ErrorCode::ObjectHasReplicationTask),
            None if self.promotions.under_way >= self.config.promotion_queue_limit => {
                return Err(ErrorCode::TaskPendingLimitExceeded);
            }
            None => {}
        }
        let (_, assigned) = self.copy_source(object, None).ok_or(ErrorCode::ReplicaNotFound)?;
        self.promotions.under_way += 1;
        self.submit_task(NewTask {
            origin: Origin::Promotion,
            object,
            kind: TaskKind::Copy,
            source: "",
            targets: &[],
            assigned,
        });
        Ok(())
    }

    /// Reserves ranges for a promoted replica, evicting as a put does: in memory of the node that reads the disk if there is
    /// some, else anywhere.
    pub(crate) fn place_promoted(&mut self, object: u32, near: u32) -> Option<Pieces> {
        let client = self.segments[near].client;
        let mut near = self.segments.of_client(client);
        near.retain(|&slot| self.segments[slot].medium == Medium::Memory);
        let wish = Wish::one(near);
        self.place(self.objects[object].len, &wish).pop()
    }

    /// A copy to memory has ended: `made` bytes, or none if it failed.
    pub(crate) fn end_promotion(&mut self, made: Option<u64>) {
        self.promotions.under_way -= 1;
        match made {
            Some(bytes) => {
                self.counters.promoted_objects += 1;
                self.counters.promoted_bytes += bytes;
            }
            None => self.counters.promotions_failed += 1,
        }
    }
}
