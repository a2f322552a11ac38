//! Eviction: the least recently used replica of a segment goes first, found without looking at any other.

use mooncake_types::Tick;

use crate::Meta;
use crate::record::{ObjectState, QueueKind};
use crate::slab::NONE;

/// Victims that the watermark takes between two requests. A group counts as its objects, and is never split.
const VICTIMS_PER_TURN: usize = 256;

/// Victims that are passed over, because of their groups, before eviction takes none.
const MOST_PASSED_OVER: usize = 256;

const PLAIN: [QueueKind; 2] = [QueueKind::Fresh, QueueKind::Leased];
const PINNED: [QueueKind; 2] = [QueueKind::PinnedFresh, QueueKind::PinnedLeased];

impl Meta {
    /// Evicts one replica that lies, at least in part, on this segment, or a whole group of objects one of which does.
    /// What was replaced goes before. Returns the bytes that came free there.
    pub(crate) fn evict_one(&mut self, slot: u32, need: bool) -> Option<u64> {
        if let Some(bytes) = self.give_up_replaced(slot) {
            return Some(bytes);
        }
        self.counters.evictions_attempted += 1;
        let victim = self.pick_victim(slot, need && self.config.allow_evict_soft_pinned)?;
        let before = self.segments[slot].allocator.used();
        let (object, replica) = (self.ranges[victim].object, self.ranges[victim].replica);
        match self.objects[object].group {
            NONE => self.evict_replicas(object, 1 << replica),
            group => {
                for member in self.groups.slots[group].members.clone() {
                    if self.objects[member].state == ObjectState::Complete {
                        self.evict_replicas(member, u32::MAX);
                    }
                }
            }
        }
        self.counters.evictions_successful += 1;
        Some(before - self.segments[slot].allocator.used())
    }

    fn evict_replicas(&mut self, object: u32, set: u32) {
        self.counters.evicted_bytes += self.free_replicas(object, set);
        if self.objects[object].first_range == NONE {
            self.counters.evicted_keys += 1;
            self.drop_object(object);
        }
    }

    /// The range on the segment that goes first. Those whose groups stay are passed over: they go to the end of the
    /// queue of what has no lease, so that they are not met again soon.
    fn pick_victim(&mut self, slot: u32, pinned_too: bool) -> Option<u32> {
        let mut passed = Vec::new();
        let mut victim = self.victim(slot, PLAIN, pinned_too, &mut passed);
        if victim.is_none() && pinned_too {
            victim = self.victim(slot, PINNED, pinned_too, &mut passed);
        }
        for id in passed {
            self.pass_over(id);
        }
        victim
    }

    /// The least recently used range of two queues, each in the order of last use. Those in the first have no
    /// lease; the head of the second has the earliest lease to end.
    fn victim(
        &self,
        slot: u32,
        kinds: [QueueKind; 2],
        pinned_too: bool,
        passed: &mut Vec<u32>,
    ) -> Option<u32> {
        let queues = &self.segments[slot].queues;
        let head = |kind: QueueKind| kind.on_segment().map_or(NONE, |place| queues[place].head);
        let mut heads = kinds.map(head);
        let touched = |id: u32| -> Option<Tick> {
            let until = (id != NONE).then(|| self.objects[self.ranges[id].object].touched)?;
            (until <= self.now).then_some(until)
        };
        loop {
            let first = match heads.map(touched) {
                [None, None] => return None,
                [Some(fresh), Some(leased)] => usize::from(leased < fresh),
                [fresh, _] => usize::from(fresh.is_none()),
            };
            let id = heads[first];
            let group = self.objects[self.ranges[id].object].group;
            if group == NONE || !self.group_stays(group, pinned_too) {
                return Some(id);
            }
            if passed.len() == MOST_PASSED_OVER {
                return None;
            }
            passed.push(id);
            heads[first] = self.ranges[id].next;
        }
    }

    /// A range of the segment was reserved: it may be crowded now.
    pub(crate) fn note_use(&mut self, slot: u32) {
        let allocator = &self.segments[slot].allocator;
        let high = allocator.capacity() as f64 * self.config.eviction_high_watermark_ratio;
        if allocator.used() as f64 > high {
            self.segments.crowded.insert(slot);
        }
    }

    /// Brings crowded segments down to the low watermark, a bounded step at a time. Soft-pinned objects are left:
    /// there is room.
    pub(crate) fn relieve_crowded(&mut self) {
        let low = self.config.eviction_high_watermark_ratio - self.config.eviction_ratio;
        let enough_keys = self.counters.evicted_keys + VICTIMS_PER_TURN as u64;
        for _ in 0..VICTIMS_PER_TURN {
            let Some(&slot) = self.segments.crowded.first() else { return };
            if self.counters.evicted_keys >= enough_keys {
                return;
            }
            let goal = (self.segments[slot].allocator.capacity() as f64 * low.max(0.0)) as u64;
            let enough = self.segments[slot].allocator.used() <= goal;
            if enough || self.evict_one(slot, false).is_none() {
                self.segments.crowded.remove(&slot);
            }
        }
    }
}
