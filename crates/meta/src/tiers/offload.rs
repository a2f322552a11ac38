//! Offload: a node copies an object from its memory to its disk, once the object is put or when eviction chooses it.

use mooncake_types::{ClientId, Medium, Version};

use super::offloads::Tally;
use crate::Meta;
use crate::notice::Notice;
use crate::objects::ObjectState;
use crate::segments::Closed;
use crate::tasks::{Ending, NewTask, Origin};
use crate::timer::Timer;

/// Time over which deferred evictions are summed up in one notice.
const NOTICE_MS: u64 = 1_000;

/// The media to which objects are copied, in this order.
const MEDIA: [Medium; 3] = [Medium::Disk, Medium::SharedDisk, Medium::ObjectStore];

/// The source and the target of an offload.
#[derive(Clone, Copy, Debug)]
pub(super) struct OffloadPath {
    /// The replica in memory that the client reads.
    pub(super) replica: u8,
    /// The client that lends both the memory and the disk.
    client: ClientId,
    disk: u32,
}

impl Meta {
    /// Begins the next copy of a readable object: to a disk, then to a shared directory, then to an object store if
    /// the object was used again. Nothing happens if too many copies are under way. Nor does it if no node with the
    /// object in memory lends a large enough segment of the medium. With `offload_on_evict` only the copy to a shared
    /// directory is made here.
    pub(crate) fn offload(&mut self, object: u32) {
        self.offload_to(object, &MEDIA);
    }

    /// Copies an object that was just used to an object store, if it belongs there. Copies that a disk has evicted are
    /// not made again.
    pub(crate) fn offload_used(&mut self, object: u32) {
        self.offload_to(object, &[Medium::ObjectStore]);
    }

    /// Begins a copy of an object to the first of these media that should have one and does not.
    fn offload_to(&mut self, object: u32, media: &[Medium]) {
        if !self.config.has_disks() || self.has_task(object) {
            return;
        }
        let next = |&medium: &Medium| {
            let is_due = self.config.copies_at_put(medium)
                && self.is_admitted(object, medium)
                && !self.lies_on(object, medium);
            if is_due { self.way_to(object, medium) } else { None }
        };
        let Some(way) = media.iter().find_map(next) else { return };
        if self.tasks.to_disks() >= self.config.offloading_queue_limit {
            self.counters.offloads_refused += 1;
            return;
        }
        self.submit_offload(Origin::Offload, object, way);
    }

    /// Whether an object is worth a place in a medium. An object that was put and never used again does not go to an
    /// object store. Most blocks are of this kind, and each would cost a request and a transfer.
    pub(super) fn is_admitted(&self, object: u32, medium: Medium) -> bool {
        medium != Medium::ObjectStore || self.was_used_again(object)
    }

    pub(super) fn submit_offload(&mut self, origin: Origin, object: u32, way: OffloadPath) {
        let target = self.segments[way.disk].name.clone();
        self.submit_task(NewTask::copy(origin, object, &[&target], way.client));
    }

    /// The path of an object from a readable replica in memory to a segment of this medium on the same node.
    pub(super) fn way_to(&self, object: u32, medium: Medium) -> Option<OffloadPath> {
        let len = self.objects[object].len;
        self.ranges_of(object).find_map(|(_, range)| {
            let memory = &self.segments[range.segment];
            let is_source = memory.medium == Medium::Memory && memory.serves();
            let disk = if is_source { self.disk_of(memory.client, len, medium) } else { None }?;
            Some(OffloadPath { replica: range.replica, client: memory.client, disk })
        })
    }

    /// A segment of this medium that a client lends and that is large enough for an object of this length.
    pub(super) fn disk_of(&self, client: ClientId, len: u64, medium: Medium) -> Option<u32> {
        let takes = |slot: &u32| {
            let disk = &self.segments[*slot];
            let is_right = disk.medium == medium && disk.takes_offloads();
            is_right && disk.allocator.capacity() >= disk.reserved_len(len)
        };
        self.segments.of_client(client).iter().copied().find(takes)
    }

    /// Whether a replica of an object that is not lost lies on a disk of any kind, in sight or not.
    pub(crate) fn is_on_disk(&self, object: u32) -> bool {
        MEDIA.into_iter().any(|medium| self.lies_on(object, medium))
    }

    /// Whether a replica of an object that is not lost lies on this medium, in sight or not.
    pub(crate) fn lies_on(&self, object: u32, medium: Medium) -> bool {
        let is_there = |segment: u32| {
            let segment = &self.segments[segment];
            segment.medium == medium && segment.is_mounted() && !segment.is(Closed::Struck)
        };
        self.ranges_of(object).any(|(_, range)| is_there(range.segment))
    }

    /// An offload of a put object has ended. Changes no object, since the object may be about to go.
    pub(crate) fn offload_ended(&mut self, object: u32, version: Version, ending: Ending) {
        if ending == Ending::Success {
            self.offloads.offloaded.push((object, version));
        }
    }

    /// Begins further copies of objects whose last offload succeeded, to the media that follow.
    pub(crate) fn offload_further(&mut self) {
        while let Some((object, version)) = self.offloads.offloaded.pop() {
            let record = self.objects.get(object);
            if record.is_some_and(|it| it.version == version && it.state == ObjectState::Complete) {
                let last = MEDIA.iter().rposition(|&medium| self.lies_on(object, medium));
                self.offload_to(object, &MEDIA[last.map_or(0, |last| last + 1)..]);
            }
        }
    }

    /// Counts a victim that was deferred, forced out or failed, and schedules a notice.
    pub(super) fn tally(&mut self, count: impl FnOnce(&mut Tally)) {
        count(&mut self.offloads.tally);
        if self.offloads.notice_at.is_none() {
            let at = self.now.after_ms(NOTICE_MS);
            self.offloads.notice_at = Some(at);
            self.timers.insert((at, Timer::SinkNotice));
        }
    }

    pub(crate) fn sink_notice_due(&mut self) {
        self.offloads.notice_at = None;
        let Tally { deferred, forced, failed } = std::mem::take(&mut self.offloads.tally);
        self.notify(Notice::Sinking { deferred, forced, failed });
    }
}
