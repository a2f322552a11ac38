//! What the master counts from its start on.

use crate::tasks::Origin;

/// Counters that only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Keys looked up by reads.
    pub lookups: u64,
    /// Times that eviction was tried.
    pub evictions_attempted: u64,
    /// Times that it freed something.
    pub evictions_successful: u64,
    /// Objects that lost their last replica by eviction.
    pub evicted_keys: u64,
    /// Bytes of the replicas evicted.
    pub evicted_bytes: u64,
    /// Puts discarded by timeout.
    pub puts_discarded: u64,
    /// Reservations that outlived their puts and were released: of discarded puts, and of ranges that nodes could not let
    /// writers have.
    pub puts_released: u64,
    /// Puts refused for lack of room.
    pub allocation_failures: u64,
    /// Puts that got fewer replicas than they asked for.
    pub partial_allocations: u64,
    /// Objects dropped because the last segment that held them went away.
    pub lost_keys: u64,
    /// Copy and move tasks that made their replicas.
    pub tasks_succeeded: u64,
    /// Copy and move tasks that did not.
    pub tasks_failed: u64,
    /// Replicas that drains moved.
    pub drain_moved: u64,
    /// Bytes of the objects that drains moved.
    pub drain_moved_bytes: u64,
    /// Replicas that drains dropped, because another one lies elsewhere and there was no room.
    pub drain_released: u64,
    /// Times that a drain could not move a replica.
    pub drain_failures: u64,
    /// Replicas made in the place of ones that were lost.
    pub repairs: Copies,
    /// Copies of objects on disks.
    pub offloads: Copies,
    /// Objects that were put and not copied to disks, because too many copies were under way.
    pub offloads_refused: u64,
    /// Objects that eviction chose and that went to disks first.
    pub evictions_deferred: u64,
    /// Objects that it took without a copy, because as many were on their way as may be.
    pub evictions_forced: u64,
    /// Times that a put was told to wait for room that is being made.
    pub puts_delayed: u64,
    /// Copies in memory of objects that lay on disks alone.
    pub promotions: Copies,
    /// Times that a read was to begin such a copy and did not: too many were under way, or something else was done to it.
    pub promotions_refused: u64,
    /// Times that an object was found to be read often.
    pub hot_objects: u64,
    /// Replicas made because of that.
    pub replications: Copies,
    /// Of them, replicas that were evicted.
    pub extra_replicas_evicted: u64,
}

/// Copies that the master has made by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copies {
    /// Replicas that were made.
    pub made: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Copies that failed.
    pub failed: u64,
}

impl Copies {
    /// A copy has ended: `made` bytes, or none if it failed.
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
    /// A task of this origin has ended: it made so many bytes, or failed.
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
