//! Promotion: an object whose replicas all lie on disks gets a replica in memory, because it is read, a caller asks for
//! it, or a caller asks whether it exists and is likely to read it.

use mooncake_types::{ErrorCode, Medium, Prefetch, PrefetchLimits, Tick};

use crate::Meta;
use crate::objects::check_key;
use crate::replication::Heat;
use crate::segments::Pieces;
use crate::tasks::{NewTask, Origin};

/// The window within which reads of an object on disks are counted.
const WINDOW_MS: u64 = 600_000;
/// How long an object is skipped after its promotion began or was refused.
const REST_MS: u64 = 1_000;

/// What is remembered of objects on disks, so that none is promoted too often.
#[derive(Debug, Default)]
pub(crate) struct Promotions {
    /// The counts of reads. Absent until one is needed.
    heat: Option<Heat>,
    /// Questions begin no promotion before this moment.
    prefetches_from: Tick,
    /// How long the last question that began one wants to wait if there is no room.
    cooldown_ms: u64,
}

impl Promotions {
    fn heat(&mut self) -> &mut Heat {
        self.heat.get_or_insert_with(|| Heat::new(WINDOW_MS))
    }
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
        if !self.config.promotion_on_hit || self.is_in_memory(object) {
            return;
        }
        let hash = self.index.hash(&self.objects[object].key);
        let spot = self.promotions.heat().note(hash, reads, self.now);
        let is_hot = spot.reads >= self.config.promotion_admission_threshold;
        if is_hot && spot.quiet_until <= self.now {
            spot.quiet_until = self.now.after_ms(REST_MS);
            if self.promote(object).is_err() {
                self.counters.promotions_refused += 1;
            }
        }
    }

    /// Promotes an object that a caller found and is likely to read. Nothing happens if it was promoted a short time ago,
    /// or if there was no room for another one.
    pub(crate) fn prefetch_found(&mut self, object: u32, limits: PrefetchLimits) {
        let may_begin = self.serves() && self.promotions.prefetches_from <= self.now;
        if !may_begin || self.is_in_memory(object) {
            return;
        }
        let hash = self.index.hash(&self.objects[object].key);
        let quiet_until = self.promotions.heat().note(hash, 0, self.now).quiet_until;
        if quiet_until > self.now {
            return;
        }
        self.promotions.cooldown_ms = limits.cooldown_ms.into();
        match self.promote(object) {
            Ok(()) => {
                let until = self.now.after_ms(limits.rest_ms.into());
                self.promotions.heat().keep_quiet(hash, until);
            }
            Err(code) => {
                self.counters.promotions_refused += 1;
                if code == ErrorCode::TaskPendingLimitExceeded {
                    self.pause_prefetches();
                }
            }
        }
    }

    /// There was no room for a promotion: questions begin none for a while.
    pub(crate) fn pause_prefetches(&mut self) {
        self.promotions.prefetches_from = self.now.after_ms(self.promotions.cooldown_ms);
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
        self.admit_copy(object, true).ok()?;
        let client = self.segments[near].client;
        let mut near = self.segments.of_client(client).to_vec();
        near.retain(|&slot| self.segments[slot].medium == Medium::Memory);
        self.place_near(object, near)
    }
}
