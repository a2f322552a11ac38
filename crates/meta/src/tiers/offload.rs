//! Offload: a copy of an object goes to a disk of a node that has it in memory.

use mooncake_types::{ClientId, Medium, TaskKind};

use crate::Meta;
use crate::tasks::{NewTask, Origin};

/// What is on its way to disks.
#[derive(Debug, Default)]
pub(crate) struct Offloads {
    under_way: usize,
}

impl Offloads {
    pub(crate) fn under_way(&self) -> usize {
        self.under_way
    }
}

impl Meta {
    /// Has a copy of an object, which has just become readable, made on a disk. Nothing happens if none of its nodes has a disk
    /// with room for it, or if too many copies are under way.
    pub(crate) fn offload(&mut self, object: u32) {
        let is_wanted = self.config.offload && !self.has_task(object);
        if !is_wanted || self.offloads.under_way >= self.config.offloading_queue_limit {
            return;
        }
        let Some((disk, assigned)) = self.disk_for(object) else { return };
        let target = self.segments[disk].name.clone();
        self.offloads.under_way += 1;
        self.submit_task(NewTask {
            origin: Origin::Offload,
            object,
            kind: TaskKind::Copy,
            source: "",
            targets: &[&target],
            assigned,
        });
    }

    /// A disk for an object, and the client that lends it: one of the clients that have the object in memory.
    fn disk_for(&self, object: u32) -> Option<(u32, ClientId)> {
        let len = self.objects[object].len;
        let in_memory = self.ranges_of(object).map(|(_, range)| &self.segments[range.segment]);
        let in_memory = in_memory.filter(|segment| segment.medium == Medium::Memory);
        let fits = |slot: &u32| {
            let disk = &self.segments[*slot];
            disk.takes_offloads() && disk.allocator.capacity() >= len
        };
        in_memory.map(|segment| segment.client).find_map(|client| {
            let disks = self.segments.of_client(client);
            disks.into_iter().find(fits).map(|slot| (slot, client))
        })
    }

    /// A copy to a disk has ended: `made` bytes, or none if it failed.
    pub(crate) fn end_offload(&mut self, made: Option<u64>) {
        self.offloads.under_way -= 1;
        match made {
            Some(bytes) => {
                self.counters.offloaded_objects += 1;
                self.counters.offloaded_bytes += bytes;
            }
            None => self.counters.offloads_failed += 1,
        }
    }
}
