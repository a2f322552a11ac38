//! Counters and gauges of the state machine. The shell turns them into metrics.

use mooncake_types::Medium;

use crate::Meta;
use crate::counters::Counters;
use crate::segments::{Closed, Segment};
use crate::tasks::Origin;

/// [`Counters`], and gauges of this moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Counters since the start.
    pub counters: Counters,
    /// Objects in the index, also unfinished ones and ones whose segments are out of sight.
    pub keys: usize,
    /// Objects whose soft pin is in force.
    pub soft_pinned_keys: usize,
    /// Puts that are running.
    pub running_puts: usize,
    /// Tombstones of puts and copies that ended without success, which reserve their bytes until a time.
    pub reserved_tombstones: usize,
    /// Bytes of these.
    pub reserved_bytes: u64,
    /// Tombstones of versions that were replaced or removed while readers had leases on them.
    pub leased_tombstones: usize,
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
    /// Copies from disks to memory that are under way or wait for their nodes.
    pub promotions_under_way: usize,
    /// Objects with replicas made because they were read often.
    pub extra_replica_objects: usize,
    /// Copies under way that make these.
    pub replications_under_way: usize,
    /// Bytes reserved in all memory in sight.
    pub used_bytes: u64,
    /// Bytes of all memory in sight.
    pub capacity_bytes: u64,
    /// Bytes reserved on all disks in sight.
    pub disk_used_bytes: u64,
    /// Bytes of all disks in sight.
    pub disk_capacity_bytes: u64,
    /// Objects with replicas on disks in sight.
    pub disk_objects: u64,
    /// Mounted segments.
    pub segments: usize,
    /// Mounted segments that are out of sight: their bytes cannot be read until their nodes ping.
    pub segments_out_of_sight: usize,
    /// Mounted segments that are still reporting what they hold.
    pub segments_recovering: usize,
    /// Members of the record that have not reported what they hold.
    pub members_missing: usize,
    /// Tombstones of entries that their nodes have not confirmed to be dropped.
    pub tombstones: usize,
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
            reserved_tombstones: self.tombstones.reserved().len(),
            reserved_bytes: self.tombstones.reserved().len_bytes(),
            leased_tombstones: self.tombstones.leased().len(),
            groups: self.groups.len(),
            pending_tasks: self.tasks.pending(),
            processing_tasks: self.tasks.processing(),
            drains: self.drains.running(),
            short_objects: self.repair.short(),
            repairs_under_way: self.tasks.under_way(Origin::Repair),
            offloads_under_way: self.tasks.to_disks(),
            promotions_under_way: self.tasks.under_way(Origin::Promotion),
            extra_replica_objects: self.extras.len(),
            replications_under_way: self.tasks.under_way(Origin::Replication),
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
            tombstones: self.tombstones.len(),
            clients: self.clients.in_sight(),
        }
    }
}
