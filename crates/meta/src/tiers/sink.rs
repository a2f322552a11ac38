//! Sinking: an object that eviction chooses in memory is copied to a disk first. Then its memory is freed.
//!
//! A victim that lies on a disk already is evicted at once, and so is a victim whose nodes have no disk. In both cases
//! an object that was used again first sinks to an object store of its node, unless it lies there already.
//!
//! One replica of a sinking object waits in a separate queue until its copy has ended, so that eviction does not
//! choose it again. Eviction counts its bytes as free. A put that finds no room meanwhile is told to wait.

use mooncake_types::{ErrorCode, Medium, Version};

use super::offload::OffloadPath;
use crate::Meta;
use crate::objects::{ObjectState, Pin, QueueKind};
use crate::placement::MOST_EVICTED;
use crate::slab::NONE;
use crate::tasks::{Ending, Origin};

impl Meta {
    /// Evicts these replicas of an object, all of one medium, or lets the object sink. An object that a task reads
    /// stays.
    pub(crate) fn evict_or_sink(&mut self, object: u32, set: u32) {
        if self.config.has_disks() && self.has_task(object) {
            return;
        }
        let is_in_memory = set & self.memory_replicas(object) != 0;
        if !self.config.sinks() || !is_in_memory {
            return self.evict_replicas(object, set);
        }
        let Some(way) = self.way_down(object) else {
            return self.evict_replicas(object, set);
        };
        if self.tasks.under_way(Origin::Sink) < self.config.most_sinking() {
            return self.sink(object, way);
        }
        if self.config.offload_force_evict {
            self.counters.evictions_forced += 1;
            self.tally(|tally| tally.forced += 1);
            self.evict_replicas(object, set);
        }
    }

    /// The path of an object that must leave memory. It goes to a disk, unless it already lies on a disk of any kind.
    /// Otherwise it goes to an object store, if it was used again.
    fn way_down(&self, object: u32) -> Option<OffloadPath> {
        let to_disk = || self.way_to(object, Medium::Disk).filter(|_| !self.is_on_disk(object));
        let to_store = || {
            let medium = Medium::ObjectStore;
            let is_wanted = self.is_admitted(object, medium) && !self.lies_on(object, medium);
            if is_wanted { self.way_to(object, medium) } else { None }
        };
        to_disk().or_else(to_store)
    }

    fn sink(&mut self, object: u32, way: OffloadPath) {
        let others = self.memory_replicas(object) & !(1 << way.replica);
        if others != 0 {
            self.counters.evicted_bytes += self.free_replicas(object, others);
            self.ask_for_no_more(object);
        }
        for id in self.range_ids(object, 1 << way.replica) {
            self.enqueue(id, QueueKind::Sinking);
        }
        self.counters.evictions_deferred += 1;
        self.tally(|tally| tally.deferred += 1);
        self.submit_offload(Origin::Sink, object, way);
    }

    /// The copy of a sinking object has ended. Changes no object, since the object may be about to go.
    pub(crate) fn sink_ended(&mut self, object: u32, version: Version, ending: Ending) {
        if ending != Ending::ObjectGone {
            self.offloads.sunk.push((object, version, ending));
        }
    }

    /// Frees the memory of objects that have sunk. An object that was leased meanwhile stays, and is evicted at once
    /// when eviction chooses it again. An object whose copy failed is evicted too, unless its group stays: the leader
    /// makes only one attempt.
    pub(crate) fn settle_sunk(&mut self) {
        self.offload_further();
        while let Some((object, version, ending)) = self.offloads.sunk.pop() {
            let is_same = |it: &&crate::objects::Object| {
                it.version == version && it.state == ObjectState::Complete
            };
            let Some(record) = self.objects.get(object).filter(is_same) else { continue };
            // The object got a task of a caller or a drain instead, which ended the copy.
            let gave_way = ending == Ending::Refused(ErrorCode::ObjectHasReplicationTask);
            // A group that is read stays complete, whatever the tier of its objects.
            let in_group = record.group != NONE && self.group_stays(record.group, true);
            let is_last = ending != Ending::Success && in_group;
            let stays = gave_way || record.pin == Pin::Hard || self.is_leased(object) || is_last;
            let stays = stays || (ending != Ending::Success && !self.may_be_evicted(object));
            // All ranges of a replica sink together.
            let set = self.replicas_where(object, |range| range.queue == QueueKind::Sinking);
            let kind = self.queue_after(object, self.is_leased(object));
            for id in self.range_ids(object, set) {
                self.enqueue(id, kind);
            }
            if ending != Ending::Success && !gave_way {
                self.tally(|tally| tally.failed += 1);
            }
            if !stays && set != 0 {
                self.evict_replicas(object, set);
            }
        }
    }

    /// Whether eviction must take nothing from a segment now: too many objects sink already, or its medium is never
    /// evicted from.
    pub(crate) fn is_eviction_paused(&self, slot: u32) -> bool {
        let segment = &self.segments[slot];
        if !self.config.evicts_from(segment.medium) {
            return true;
        }
        self.config.sinks()
            && !self.config.offload_force_evict
            && segment.medium == Medium::Memory
            && self.tasks.under_way(Origin::Sink) >= self.config.most_sinking()
            && [Medium::Disk, Medium::ObjectStore]
                .into_iter()
                .any(|medium| self.disk_of(segment.client, 1, medium).is_some())
    }

    /// Whether so many bytes sink on a segment that a put of this length waits for them. Eviction chooses victims
    /// ahead of need, so that the disk is never idle while puts wait.
    pub(crate) fn sinks_enough(&self, slot: u32, len: u64) -> bool {
        let segment = &self.segments[slot];
        let ahead = (segment.allocator.capacity() as f64 * self.config.eviction_ratio) as u64;
        segment.sinking > 0 && segment.sinking >= ahead.max(len.saturating_mul(MOST_EVICTED))
    }

    /// Whether room may come free soon: objects are on their way to disks, or stay only until a task has read them.
    /// Promotions do not count, since they add objects to memory.
    pub(crate) fn is_making_room(&self) -> bool {
        let tasks = self.tasks.pending() + self.tasks.processing();
        self.config.has_disks() && tasks > self.tasks.under_way(Origin::Promotion)
    }
}
