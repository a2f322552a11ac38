//! What the master counts. The shell turns it into metrics.

use mooncake_types::Medium;

use crate::Meta;
use crate::segments::{Closed, Segment};

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
    pub repaired_replicas: u64,
    /// Their bytes.
    pub repaired_bytes: u64,
    /// Copies to that end that failed.
    pub repairs_failed: u64,
    /// Copies of objects that were made on disks.
    pub offloaded_objects: u64,
    /// Their bytes.
    pub offloaded_bytes: u64,
    /// Copies to disks that failed.
    pub offloads_failed: u64,
    /// Objects that were put and not copied to disks, because too many copies were under way.
    pub offloads_refused: u64,
    /// Objects that eviction chose and that went to disks first.
    pub evictions_deferred: u64,
    /// Objects that it took without a copy, because as many were on their way as may be.
    pub evictions_forced: u64,
    /// Times that a put was told to wait for room that is being made.
    pub puts_delayed: u64,
    /// Copies of objects that were made in memory because they lay on disks alone.
    pub promoted_objects: u64,
    /// Their bytes.
    pub promoted_bytes: u64,
    /// Copies to that end that failed.
    pub promotions_failed: u64,
    /// Times that a read was to begin such a copy and did not: too many were under way, or something else was done to it.
    pub promotions_refused: u64,
    /// Times that an object was found to be read often.
    pub hot_objects: u64,
    /// Replicas made because of that.
    pub extra_replicas_made: u64,
    /// Their bytes.
    pub extra_replica_bytes: u64,
    /// Of them, replicas that were evicted.
    pub extra_replicas_evicted: u64,
    /// Copies to that end that failed.
    pub replications_failed: u64,
}

/// [`Counters`] and what there is at this moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Counters since the start.
    pub counters: Counters,
    /// Objects in the index, finished or not, in sight or not.
    pub keys: usize,
    /// Objects whose soft pin is in force.
    pub soft_pinned_keys: usize,
    /// Puts that are running.
    pub running_puts: usize,
    /// Reservations that outlived their puts and copies.
    pub discarded_puts: usize,
    /// Bytes of these.
    pub discarded_bytes: u64,
    /// Versions that were replaced or removed while they were leased, and that nodes may still hold.
    pub replaced_objects: usize,
    /// Groups of objects.
    pub groups: usize,
    /// Tasks that no client has fetched.
    pub pending_tasks: usize,
    /// Tasks that clients work on.
    pub processing_tasks: usize,
    /// Drain jobs that run.
    pub drains: usize,
    /// Objects that have fewer replicas than were asked for.
    pub short_objects: usize,
    /// Copies under way to replace replicas that were lost.
    pub repairs_under_way: usize,
    /// Copies to disks that are under way or wait for their nodes.
    pub offloads_under_way: usize,
    /// Copies of objects that lie on disks alone to memory, likewise.
    pub promotions_under_way: usize,
    /// Objects with replicas made because they were read often.
    pub extra_replica_objects: usize,
    /// Copies under way to that end.
    pub replications_under_way: usize,
    /// Bytes reserved in all memory in sight.
    pub used_bytes: u64,
    /// Bytes of all memory in sight.
    pub capacity_bytes: u64,
    /// Bytes reserved on all disks in sight.
    pub disk_used_bytes: u64,
    /// Bytes of all disks in sight.
    pub disk_capacity_bytes: u64,
    /// Objects that lie on these.
    pub disk_objects: u64,
    /// Mounted segments.
    pub segments: usize,
    /// Of those, segments whose nodes are not heard of: their bytes cannot be read until they are.
    pub segments_out_of_sight: usize,
    /// Of those, segments that are still reporting what they hold.
    pub segments_recovering: usize,
    /// Members of the record that have not reported what they hold.
    pub members_missing: usize,
    /// Entries that the master forgot and that nodes may still hold.
    pub undropped_entries: usize,
    /// Clients whose last ping came over a connection that is still open.
    pub clients: usize,
}

impl Meta {
    /// The counters and gauges. Takes time in proportion to the number of segments.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mounted = || self.segments.iter().map(|(_, s)| s).filter(|s| s.is_mounted());
        let serving = |medium: Medium| {
            let in_sight = mounted().filter(|segment| !segment.is(Closed::OutOfSight));
            in_sight.filter(move |segment| segment.medium == medium)
        };
        let used =
            |medium| -> u64 { serving(medium).map(|segment| segment.allocator.used()).sum() };
        let capacity =
            |medium| -> u64 { serving(medium).map(|segment| segment.allocator.capacity()).sum() };
        let objects = |medium| -> u64 { serving(medium).map(Segment::finished_ranges).sum() };
        let below_memory = |sum: &dyn Fn(Medium) -> u64| -> u64 {
            [Medium::Disk, Medium::SharedDisk, Medium::ObjectStore].map(sum).iter().sum()
        };
        Stats {
            counters: self.counters,
            keys: self.index.len(),
            soft_pinned_keys: self.soft_pins.in_force(),
            running_puts: self.running.len() as usize,
            discarded_puts: self.tombstones.reserved().len(),
            discarded_bytes: self.tombstones.reserved().len_bytes(),
            replaced_objects: self.tombstones.leased().len(),
            groups: self.groups.len(),
            pending_tasks: self.tasks.pending(),
            processing_tasks: self.tasks.processing(),
            drains: self.drains.running(),
            short_objects: self.repair.short(),
            repairs_under_way: self.repair.under_way(),
            offloads_under_way: self.offloads.under_way(),
            promotions_under_way: self.promotions.under_way(),
            extra_replica_objects: self.extras.len(),
            replications_under_way: self.replicator.under_way(),
            used_bytes: used(Medium::Memory),
            capacity_bytes: capacity(Medium::Memory),
            disk_used_bytes: below_memory(&used),
            disk_capacity_bytes: below_memory(&capacity),
            disk_objects: below_memory(&objects),
            segments: self.segments.len(),
            segments_out_of_sight: mounted()
                .filter(|segment| segment.is(Closed::OutOfSight))
                .count(),
            segments_recovering: mounted().filter(|s| s.recovering.is_some()).count(),
            members_missing: self.recovery.missing().len(),
            undropped_entries: self.tombstones.len(),
            clients: self.clients.in_sight(),
        }
    }
}
