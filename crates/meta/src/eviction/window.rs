//! Windows: neighbouring ranges of one segment that make room for a longer range if they are evicted together.
//!
//! A put first plans what to evict, and evicts it only if that makes room for the whole put. So a put that is refused
//! evicts nothing, and a put that is granted evicts about what it needs. The work of a request is bounded: see
//! [`Effort`](crate::effort::Effort).

use std::collections::BTreeSet;

use smallvec::{SmallVec, smallvec};

use super::evict::{EvictionRank, SEEDS};
use crate::Meta;
use crate::objects::{EXTRA_PLACE, PINNED_PLACES, PLAIN_PLACES, QueueKind, Range};
use crate::slab::NONE;

/// Victims around which windows are looked for if there is none around the first [`SEEDS`].
const MOST_SEEDS: usize = 256;
/// A window is taken at once if it costs at most the wanted length and one part in this many of it.
const CHEAP: u64 = 8;

/// Steps that it costs to find that a segment has nothing to evict.
const BARREN_STEPS: u32 = 16;
/// Longest time for which a segment that has nothing to evict is passed over.
pub(crate) const MOST_BARREN_MS: u64 = 100;

/// Neighbouring ranges on one segment, with the free bytes between and around them.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    pub(crate) slot: u32,
    /// Where it begins, in bytes. From there on `len` bytes are free once all victims are evicted.
    start: u64,
    pub(crate) len: u64,
    pub(crate) victims: SmallVec<[u32; 4]>,
    /// Bytes of objects that are evicted with it, wherever the ranges of their replicas and groups lie.
    pub(crate) bytes: u64,
}

impl Window {
    /// Adds this window to some windows, merged with those that it touches: their room comes free in one piece.
    pub(crate) fn join(mut self, windows: &mut Vec<Window>) {
        while let Some(place) = windows.iter().position(|it| it.touches(&self)) {
            let other = windows.swap_remove(place);
            self.start = self.start.min(other.start);
            self.len += other.len;
            self.victims.extend(other.victims);
            self.bytes += other.bytes;
        }
        windows.push(self);
    }

    fn touches(&self, other: &Window) -> bool {
        let (end, other_end) = (self.start + self.len, other.start + other.len);
        self.slot == other.slot && (end == other.start || other_end == self.start)
    }

    fn covers(&self, slot: u32, offset: u64) -> bool {
        self.slot == slot && (self.start..self.start + self.len).contains(&offset)
    }
}

/// What a search for a window asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WantedWindow<'a> {
    /// The window stops growing once it is as long as this.
    pub(crate) len: u64,
    /// Least length that is enough.
    pub(crate) least: u64,
    /// Most bytes of objects that it may cost.
    pub(crate) most_bytes: u64,
    /// Windows that it must not overlap.
    pub(crate) taken: &'a [Window],
}

impl Meta {
    /// Plans what to evict on a segment for a range of `len` bytes. It may cost `most_bytes` of objects, or the one
    /// object that is evicted next. Evicts nothing yet.
    pub(crate) fn plan_range(&mut self, slot: u32, len: u64, most_bytes: u64) -> Option<Window> {
        if self.segments[slot].allocator.capacity() < len || !self.effort.take(1) {
            return None;
        }
        let Some(next) = self.next_victim(slot, self.config.allow_evict_soft_pinned) else {
            self.note_barren(slot);
            return None;
        };
        let alone = self.alone(slot, next);
        if alone.len >= len {
            return Some(alone);
        }
        self.find_window(slot, WantedWindow { len, least: len, most_bytes, taken: &[] })
    }

    /// The cheapest window on a segment, of those around the next victims. Takes soft-pinned objects only if there is
    /// no window without them.
    pub(crate) fn find_window(&mut self, slot: u32, wanted: WantedWindow<'_>) -> Option<Window> {
        let allowed = self.config.allow_evict_soft_pinned;
        for (enough, pinned_too) in [(SEEDS, false), (SEEDS, allowed), (MOST_SEEDS, allowed)] {
            let mut seeds: SmallVec<[u32; SEEDS]> = self.spare_extra(slot).into_iter().collect();
            self.pick_victims(slot, pinned_too, enough, &mut seeds);
            let window = self.cheapest_window((slot, &seeds), wanted, pinned_too);
            if window.is_some() {
                return window;
            }
        }
        None
    }

    fn cheapest_window(
        &mut self,
        (slot, seeds): (u32, &[u32]),
        wanted: WantedWindow<'_>,
        pinned_too: bool,
    ) -> Option<Window> {
        let mut best: Option<Window> = None;
        for &seed in seeds {
            if !self.effort.take(1) {
                break;
            }
            let most_bytes = best.as_ref().map_or(wanted.most_bytes, |best| best.bytes - 1);
            let Some(window) =
                self.grow_window(slot, seed, WantedWindow { most_bytes, ..wanted }, pinned_too)
            else {
                continue;
            };
            if window.bytes <= wanted.len + wanted.len / CHEAP {
                return Some(window);
            }
            best = Some(window);
        }
        best
    }

    /// A window of one range.
    fn alone(&self, slot: u32, id: u32) -> Window {
        let range = self.segments[slot].allocator.range(self.ranges[id].handle);
        let bytes = self.cost_of(id);
        Window { slot, start: range.offset, len: range.len, victims: smallvec![id], bytes }
    }

    /// Bytes of objects that are evicted with a range: those of its replica, or of its group.
    pub(crate) fn cost_of(&self, id: u32) -> u64 {
        let range = &self.ranges[id];
        let object = &self.objects[range.object];
        if object.group == NONE || range.queue == QueueKind::Extra {
            return object.len;
        }
        self.groups.bytes(object.group)
    }

    /// The window around a range, if there is one. It grows towards the neighbour that would be evicted sooner.
    fn grow_window(
        &mut self,
        slot: u32,
        seed: u32,
        wanted: WantedWindow<'_>,
        pinned_too: bool,
    ) -> Option<Window> {
        let mut window = self.alone(slot, seed);
        if wanted.taken.iter().any(|it| it.covers(slot, window.start))
            || window.bytes > wanted.most_bytes
        {
            return None;
        }
        let mut counted = BTreeSet::from([self.unit_of(seed)]);
        let handle = self.ranges[seed].handle;
        let mut sides = self.segments.neighbours(slot, handle);
        // Free bytes beside another window may belong to that window.
        let reaches = |start: u64, len: u64| {
            let overlaps = |it: &Window| start < it.start + it.len && it.start < start + len;
            wanted.taken.iter().any(|it| it.slot == slot && overlaps(it))
        };
        loop {
            for (side, neighbour) in sides.iter_mut().enumerate() {
                let free = std::mem::take(&mut neighbour.free);
                let start = window.start - if side == 0 { free } else { 0 };
                match reaches(start, window.len + free) {
                    true => neighbour.next = None,
                    false => (window.start, window.len) = (start, window.len + free),
                }
            }
            if window.len >= wanted.len {
                return Some(window);
            }
            if !self.effort.take(1) {
                return None;
            }
            let ranks = [0, 1].map(|side: usize| {
                let handle = sides[side].next?;
                let id = self.segments[slot].owner(handle)?;
                let is_its_own = |it: &&Range| (it.segment, it.handle) == (slot, handle);
                self.ranges.get(id).filter(is_its_own)?;
                Some((self.rank_beside(id, pinned_too)?, side, id))
            });
            let Some((_, side, id)) = ranks.into_iter().flatten().min() else { break };
            let bytes = if counted.insert(self.unit_of(id)) { self.cost_of(id) } else { 0 };
            let handle = self.ranges[id].handle;
            let range = self.segments[slot].allocator.range(handle);
            if window.bytes + bytes > wanted.most_bytes || reaches(range.offset, range.len) {
                break;
            }
            window.bytes += bytes;
            window.victims.push(id);
            window.start = window.start.min(range.offset);
            window.len += range.len;
            sides[side] = self.segments.neighbours(slot, handle)[side];
        }
        (window.len >= wanted.least).then_some(window)
    }

    /// What is evicted together with a range: its group, or its replica.
    fn unit_of(&self, id: u32) -> (bool, u32, u8) {
        let range = &self.ranges[id];
        match self.objects[range.object].group {
            _ if range.queue == QueueKind::Extra => (false, range.object, range.replica),
            NONE => (false, range.object, range.replica),
            group => (true, group, 0),
        }
    }

    /// The rank of a range, if the range can be evicted now.
    fn rank_beside(&self, id: u32, pinned_too: bool) -> Option<EvictionRank> {
        let range = &self.ranges[id];
        let is_evictable = match range.queue {
            QueueKind::Fresh | QueueKind::Leased => true,
            QueueKind::PinnedFresh | QueueKind::PinnedLeased => pinned_too,
            QueueKind::Extra => self.is_spare(id),
            _ => false,
        };
        let stays =
            || range.queue != QueueKind::Extra && self.victim_stays(range.object, pinned_too);
        if !is_evictable {
            return None;
        }
        let lane = self.lane_on(range.object, range.segment);
        if !self.gives_way(lane) || stays() { None } else { self.rank(id, lane) }
    }

    /// Evicts the victims of windows. False if they are too many for one request, or if one of them must stay for now:
    /// then nothing is evicted.
    pub(crate) fn evict_windows(&mut self, windows: &[Window]) -> bool {
        let victims = windows.iter().map(|window| window.victims.len() as u32).sum();
        let Some(left) = self.effort.victims.checked_sub(victims) else { return false };
        for &id in windows.iter().flat_map(|window| &window.victims) {
            if !self.may_evict_range(id) {
                return false;
            }
        }
        let keys = self.counters.evicted_keys;
        for window in windows {
            self.counters.count_eviction(self.segments[window.slot].medium, true);
            for &id in &window.victims {
                // The range may have gone with its group, or with another stripe of its replica.
                if self.ranges.get(id).is_some() {
                    self.evict_range(id);
                }
            }
        }
        // Groups may have lost more objects than these victims.
        let keys = (self.counters.evicted_keys - keys) as u32;
        self.effort.victims = left.saturating_sub(keys.saturating_sub(victims));
        true
    }

    /// Notes that nothing can be evicted on a segment now, and for how long it is passed over. That is not long:
    /// behind the head of a queue may be a new replica of an object that was leased before, whose lease ends sooner.
    pub(crate) fn note_barren(&mut self, slot: u32) {
        self.effort.take(BARREN_STEPS);
        let soon = self.now.after_ms(1);
        let mut from = self.now.after_ms(MOST_BARREN_MS);
        let segment = &self.segments[slot];
        let pinned = if self.config.allow_evict_soft_pinned { PINNED_PLACES } else { 0..0 };
        let places = || PLAIN_PLACES.chain(pinned.clone()).chain([EXTRA_PLACE]);
        let heads = segment
            .lanes()
            .flat_map(|lane| places().map(move |place| segment.queue(lane, place).head()));
        for head in heads.filter(|&head| head != NONE) {
            let range = &self.ranges[head];
            // The head of a queue of leased ranges has the lease that ends first. All other ranges wait for something
            // else.
            let end = match range.queue {
                QueueKind::Leased | QueueKind::PinnedLeased => {
                    self.objects[range.object].leased_until()
                }
                _ => soon,
            };
            from = from.min(end.max(soon));
        }
        self.segments.set_evictable_from(slot, from);
    }
}
