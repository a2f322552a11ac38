//! Promotion: an object that lies on disks alone gets a replica in memory.

use mooncake_types::{ErrorCode, Medium, Prefetch, TaskKind};

use crate::Meta;
use crate::meta::check_key;
use crate::objects::ObjectState;
use crate::placement::Wish;
use crate::segments::Pieces;
use crate::tasks::{NewTask, Origin};

/// What is on its way to memory.
#[derive(Debug, Default)]
pub(crate) struct Promotions {
    under_way: usize,
}

impl Promotions {
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
