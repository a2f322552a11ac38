//! Counters of the master since its start.

use mooncake_types::{Medium, TaskKind};

use crate::tasks::Origin;

/// Counters that only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Keys that reads looked up.
    pub lookups: u64,
    /// Times that eviction was tried.
    pub evictions_attempted: u64,
    /// Times that eviction found a victim.
    pub evictions_successful: u64,
    /// Objects whose last replica was evicted.
    pub evicted_keys: u64,
    /// Bytes of evicted replicas.
    pub evicted_bytes: u64,
    /// Of these four, what concerns memory.
    pub evictions_in_memory: Evictions,
    /// Replicas below memory that were evicted.
    pub disk_replicas_evicted: u64,
    /// Puts that did not end in time and were discarded.
    pub puts_discarded: u64,
    /// Reservations that outlived their puts and have ended: of discarded puts, and of ranges that a node could not
    /// clear for a writer.
    pub puts_released: u64,
    /// Puts refused for lack of room.
    pub allocation_failures: u64,
    /// Puts that got fewer replicas than they asked for.
    pub partial_allocations: u64,
    /// Objects that were dropped because their last replica was lost.
    pub lost_keys: u64,
    /// Times that a client went out of sight.
    pub clients_suspected: u64,
    /// Times that a client came back into sight.
    pub clients_recovered: u64,
    /// Clients that were given up because they were silent for too long.
    pub clients_given_up: u64,
    /// Copy and move tasks that made their replicas.
    pub tasks_succeeded: u64,
    /// Copy and move tasks that failed.
    pub tasks_failed: u64,
    /// Copy tasks, of whatever origin.
    pub copies: TaskCounts,
    /// Move tasks, of whatever origin.
    pub moves: TaskCounts,
    /// Replicas that drains moved.
    pub drain_moved: u64,
    /// Bytes of the objects that drains moved.
    pub drain_moved_bytes: u64,
    /// Replicas that drains dropped, because another one lies elsewhere and there was no room.
    pub drain_released: u64,
    /// Times that a drain could not move a replica.
    pub drain_failures: u64,
    /// Replicas that were made in place of lost ones.
    pub repairs: Copies,
    /// Copies of objects to disks.
    pub offloads: Copies,
    /// Objects that were put and not copied to disks, because too many copies were under way.
    pub offloads_refused: u64,
    /// Objects that eviction chose and that nodes copied to disks before their memory was freed.
    pub evictions_deferred: u64,
    /// Objects that eviction took without a copy, because no further copy was allowed.
    pub evictions_forced: u64,
    /// Puts that the master told to wait, because room was being made.
    pub puts_delayed: u64,
    /// Copies of objects that lay on disks only, to memory.
    pub promotions: Copies,
    /// Times that a read should have begun a promotion and did not: too many were under way, the object had another
    /// task, or no replica could be read.
    pub promotions_refused: u64,
    /// Times that the master found that an object is read often.
    pub hot_objects: u64,
    /// Extra replicas that were made of these objects.
    pub replications: Copies,
    /// Extra replicas that were evicted.
    pub extra_replicas_evicted: u64,
}

/// Evictions in one medium.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evictions {
    /// Times that eviction was tried.
    pub attempted: u64,
    /// Times that it found a victim.
    pub successful: u64,
    /// Objects whose last replica was evicted.
    pub keys: u64,
    /// Bytes of evicted replicas.
    pub bytes: u64,
}

/// Tasks of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskCounts {
    /// Tasks that nodes began.
    pub begun: u64,
    /// Times that a task could not begin.
    pub not_begun: u64,
    /// Tasks that made their replicas.
    pub made: u64,
    /// Tasks that failed after they had begun.
    pub failed: u64,
}

/// Copies of one kind that the master ordered by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copies {
    /// Replicas that were made.
    pub made: u64,
    /// Bytes of these replicas.
    pub bytes: u64,
    /// Copies that failed.
    pub failed: u64,
}

impl Copies {
    /// Counts a copy that has ended: `made` bytes, or none if it failed.
    fn count(&mut self, made: Option<u64>) {
        match made {
            Some(bytes) => {
                self.made += 1;
                self.bytes += bytes;
            }
            None => self.failed += 1,
        }
    }
}

impl Counters {
    /// Counts an attempt to evict in this medium.
    pub(crate) fn count_eviction(&mut self, medium: Medium, found: bool) {
        let found = u64::from(found);
        self.evictions_attempted += 1;
        self.evictions_successful += found;
        if medium == Medium::Memory {
            self.evictions_in_memory.attempted += 1;
            self.evictions_in_memory.successful += found;
        }
    }

    /// The counts of tasks of this kind.
    pub(crate) fn of_tasks(&mut self, kind: TaskKind) -> &mut TaskCounts {
        match kind {
            TaskKind::Copy => &mut self.copies,
            TaskKind::Move => &mut self.moves,
        }
    }

    /// Counts the copy of a task that has ended: `made` bytes, or none if it failed.
    pub(crate) fn count_copy(&mut self, origin: Origin, made: Option<u64>) {
        match origin {
            Origin::Caller | Origin::Drain(_) => {}
            Origin::Repair => self.repairs.count(made),
            Origin::Replication => self.replications.count(made),
            Origin::Offload | Origin::Sink => self.offloads.count(made),
            Origin::Promotion => self.promotions.count(made),
        }
    }
}
