//! Counters and gauges of the state machine. The shell turns them into metrics.

use mooncake_types::Medium;

use crate::Meta;
use crate::counters::Counters;
use crate::report::SegmentReport;
use crate::tasks::Origin;

/// [`Counters`], and gauges of the present state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Counters since the start.
    pub counters: Counters,
    /// Objects in the index, unfinished ones and ones out of sight included.
    pub keys: usize,
    /// Objects whose soft pins are in force.
    pub soft_pinned_keys: usize,
    /// Puts that are running.
    pub running_puts: usize,
    /// Reservations of puts and copies that ended without success. Each reserves its bytes until a time.
    pub reservations: usize,
    /// Bytes of these reservations.
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
    /// Copies under way that replace lost replicas.
    pub repairs_under_way: usize,
    /// Copies to disks that are under way or wait for their nodes.
    pub offloads_under_way: usize,
    /// Copies from disks to memory that are under way or wait for their nodes.
    pub promotions_under_way: usize,
    /// Objects that have extra replicas because they were read often.
    pub extra_replica_objects: usize,
    /// Copies under way that make extra replicas.
    pub replications_under_way: usize,
    /// Bytes reserved in all memory in sight.
    pub used_bytes: u64,
    /// Bytes of all memory in sight.
    pub capacity_bytes: u64,
    /// Bytes reserved in sight below memory: on disks, in shared directories and in object stores.
    pub disk_used_bytes: u64,
    /// Bytes in sight below memory.
    pub disk_capacity_bytes: u64,
    /// Ranges of finished objects in sight below memory.
    pub disk_objects: u64,
    /// Mounted segments.
    pub segments: usize,
    /// Mounted segments that are out of sight: their bytes cannot be read until their clients ping.
    pub segments_out_of_sight: usize,
    /// Mounted segments whose nodes are still reporting their entries.
    pub segments_recovering: usize,
    /// Members that have not reported their entries.
    pub members_missing: usize,
    /// Tombstones whose entries may still exist: no node has confirmed that it dropped them.
    pub tombstones: usize,
    /// Clients in sight: as far as is known, the connection of their last ping is open.
    pub clients_in_sight: usize,
    /// Clients out of sight that have not been given up.
    pub clients_out_of_sight: usize,
}

impl Stats {
    /// Adds a segment to the sums over all mounted segments.
    pub fn add(&mut self, segment: &SegmentReport) {
        self.segments += 1;
        self.segments_recovering += usize::from(segment.is_reporting);
        if segment.is_out_of_sight {
            self.segments_out_of_sight += 1;
            return;
        }
        let (used, capacity) = match segment.medium {
            Medium::Memory => (&mut self.used_bytes, &mut self.capacity_bytes),
            Medium::Disk | Medium::SharedDisk | Medium::ObjectStore => {
                self.disk_objects += segment.objects;
                (&mut self.disk_used_bytes, &mut self.disk_capacity_bytes)
            }
        };
        *used += segment.used;
        *capacity += segment.capacity;
    }
}

impl Meta {
    /// Objects that were dropped because their last replica was lost, since the start.
    #[must_use]
    pub fn lost_keys(&self) -> u64 {
        self.counters.lost_keys
    }

    /// Objects that have fewer replicas than were asked for, and the copies under way that replace lost replicas.
    #[must_use]
    pub fn lacking_replicas(&self) -> (usize, usize) {
        (self.repair.short(), self.tasks.under_way(Origin::Repair))
    }

    /// The counters and gauges. Takes time in proportion to the number of segments: a shell that serves others
    /// meanwhile takes [`Meta::counts`] and pages of [reports](Meta::segments_from).
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut stats = self.counts();
        self.reports().for_each(|report| stats.add(&report));
        stats
    }

    /// The counters and gauges, without the sums over segments: see [`Stats::add`].
    #[must_use]
    pub fn counts(&self) -> Stats {
        Stats {
            counters: self.counters,
            keys: self.index.len(),
            soft_pinned_keys: self.soft_pins.in_force(),
            running_puts: self.running.len() as usize,
            reservations: self.tombstones.reserved().len(),
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
            members_missing: self.recovery.missing().len(),
            tombstones: self.tombstones.len(),
            clients_in_sight: self.clients.in_sight(),
            clients_out_of_sight: self.clients.len() - self.clients.in_sight(),
            ..Stats::default()
        }
    }
}
