//! Eviction: the least recently used replica of a segment goes first, found without looking at any other.

use mooncake_types::Tick;

use crate::Meta;
use crate::queue::Queue;
use crate::record::QueueKind;
use crate::slab::NONE;

/// Victims that the watermark takes between two requests.
const VICTIMS_PER_TURN: usize = 256;

impl Meta {
    /// Evicts one replica that lies, at least in part, on this segment. Returns the bytes that came free there.
    pub(crate) fn evict_one(&mut self, slot: u32, need: bool) -> Option<u64> {
        self.counters.evictions_attempted += 1;
        let pinned_too = need && self.config.allow_evict_soft_pinned;
        let victim = self.victim(slot, QueueKind::Fresh, QueueKind::Leased).or_else(|| {
            self.victim(slot, QueueKind::PinnedFresh, QueueKind::PinnedLeased)
                .filter(|_| pinned_too)
        })?;
        let before = self.segments[slot].allocator.used();
        let (object, replica) = (self.ranges[victim].object, self.ranges[victim].replica);
        self.counters.evicted_bytes += self.free_replicas(object, 1 << replica);
        if self.objects[object].first_range == NONE {
            self.counters.evicted_keys += 1;
            self.drop_object(object);
        }
        self.counters.evictions_successful += 1;
        Some(before - self.segments[slot].allocator.used())
    }

    /// The least recently used range of two queues, each in the order of last use. Those in the first have no
    /// lease; the head of the second has the earliest lease to end.
    fn victim(&self, slot: u32, fresh: QueueKind, leased: QueueKind) -> Option<u32> {
        let head = |kind: QueueKind| -> Option<(Tick, u32)> {
            let queue: &Queue = &self.segments[slot].queues[kind.on_segment()?];
            let range = (queue.head != NONE).then_some(queue.head)?;
            Some((self.objects[self.ranges[range].object].touched, range))
        };
        let over = head(leased).filter(|&(until, _)| until <= self.now);
        [head(fresh), over]
            .into_iter()
            .flatten()
            .min_by_key(|&(touched, _)| touched)
            .map(|(_, id)| id)
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
        for _ in 0..VICTIMS_PER_TURN {
            let Some(&slot) = self.segments.crowded.first() else { return };
            let goal = (self.segments[slot].allocator.capacity() as f64 * low.max(0.0)) as u64;
            let enough = self.segments[slot].allocator.used() <= goal;
            if enough || self.evict_one(slot, false).is_none() {
                self.segments.crowded.remove(&slot);
            }
        }
    }
}
