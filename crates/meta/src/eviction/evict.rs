//! Eviction: the replica on a segment that is least likely to be used soon goes first.
//!
//! Each segment has a queue for every [class](crate::objects), in the order of last use. Eviction compares the heads
//! of the queues, and takes the one whose class and age are [worth](super::reuse) least. While nothing has been
//! learned, that is the least recently used. Eviction looks at no other replicas.

use std::cmp::Reverse;

use smallvec::SmallVec;

use crate::Meta;
use crate::effort::CHANGE;
use crate::objects::{ObjectState, PINNED_PLACES, PLAIN_PLACES, QueueKind, Range};
use crate::slab::NONE;
use crate::tenants::NO_LANE;

/// Most ranges that one search passes over: victims that stay for their group or task, or leased ranges of a queue.
const MOST_VICTIMS_PASSED: usize = 256;

/// Victims around which windows are looked for first on one segment.
pub(super) const SEEDS: usize = 16;

/// Segments between which a put that finds no room chooses.
pub(crate) const CHOICES: usize = 2;

/// The order in which ranges are evicted, the least first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EvictionRank {
    worth: u32,
    younger: Reverse<u64>,
}

impl Meta {
    /// Evicts one replica that has a range on this segment, or the whole group of its object. `need` says whether
    /// soft-pinned objects may be taken. Returns the bytes that came free on the segment.
    pub(crate) fn evict_one(&mut self, slot: u32, need: bool) -> Option<u64> {
        let victim = self.next_victim(slot, need && self.config.allow_evict_soft_pinned);
        let victim = victim.filter(|&range| self.may_evict_range(range));
        self.counters.count_eviction(self.segments[slot].medium, victim.is_some());
        let before = self.segments[slot].allocator.used();
        self.evict_range(victim?);
        Some(before - self.segments[slot].allocator.used())
    }

    /// Whether the objects that go with a range may be evicted.
    pub(crate) fn may_evict_range(&mut self, id: u32) -> bool {
        if !self.members.has_trackable() {
            return true;
        }
        let object = self.ranges[id].object;
        match self.objects[object].group {
            NONE => self.may_be_evicted(object),
            group => {
                let members = self.groups.members(group).to_vec();
                let not_yet = members.iter().filter(|&&member| !self.may_be_evicted(member));
                not_yet.count() == 0
            }
        }
    }

    /// Evicts a range with the rest of its replica, or with its group.
    pub(crate) fn evict_range(&mut self, id: u32) {
        if self.ranges[id].queue == QueueKind::Extra {
            return self.drop_extra(id);
        }
        let Range { object, replica, segment, .. } = self.ranges[id];
        match self.objects[object].group {
            NONE => self.evict_or_sink(object, 1 << replica),
            group => {
                let medium = self.segments[segment].medium;
                for member in self.groups.members(group).to_vec() {
                    let set = self.replicas_in(member, medium);
                    if self.objects[member].state == ObjectState::Complete && set != 0 {
                        self.evict_or_sink(member, set);
                    }
                }
            }
        }
    }

    /// Evicts these replicas. Drops the object if it has no others.
    pub(crate) fn evict_replicas(&mut self, object: u32, set: u32) {
        let class = self.class_of(object);
        let is_in_memory = self.memory_replicas(object) & set != 0;
        let bytes = self.free_replicas(object, set);
        let is_gone = self.objects[object].first_range == NONE;
        self.counters.evicted_bytes += bytes;
        match is_in_memory {
            true => {
                self.counters.evictions_in_memory.bytes += bytes;
                self.counters.evictions_in_memory.keys += u64::from(is_gone);
                self.count_tenant_eviction(object, bytes);
            }
            false => self.counters.disk_replicas_evicted += u64::from(set.count_ones()),
        }
        if is_gone {
            self.counters.evicted_keys += 1;
            self.note_evicted(object, class);
            self.drop_object(object);
        } else {
            self.ask_for_no_more(object);
        }
    }

    /// The range on a segment that is evicted next: of an extra replica without a lease if there is one.
    pub(crate) fn next_victim(&mut self, slot: u32, pinned_too: bool) -> Option<u32> {
        self.spare_extra(slot).or_else(|| {
            let mut victims: SmallVec<[u32; SEEDS]> = SmallVec::new();
            self.pick_victims(slot, pinned_too, 1, &mut victims);
            victims.first().copied()
        })
    }

    /// The range of a lane on a segment that is evicted next.
    pub(crate) fn next_victim_in(&mut self, slot: u32, lane: u32, pinned_too: bool) -> Option<u32> {
        let mut victims: SmallVec<[u32; SEEDS]> = SmallVec::new();
        self.advance_hand(slot, lane);
        let places =
            if pinned_too { vec![PLAIN_PLACES, PINNED_PLACES] } else { vec![PLAIN_PLACES] };
        for places in places {
            self.pick_victims_from((slot, lane), places, (pinned_too, 1), &mut victims);
        }
        victims.first().copied()
    }

    /// Picks the ranges on a segment that are evicted next, until there are `enough`. Takes soft-pinned ones only if
    /// the others are too few.
    pub(super) fn pick_victims(
        &mut self,
        slot: u32,
        pinned_too: bool,
        enough: usize,
        victims: &mut SmallVec<[u32; SEEDS]>,
    ) {
        let lanes = self.lanes_that_give_way(slot);
        let pinned = if pinned_too { Some(PINNED_PLACES) } else { None };
        for places in [Some(PLAIN_PLACES), pinned].into_iter().flatten() {
            for &lane in &lanes {
                if victims.len() >= enough {
                    return;
                }
                if places == PLAIN_PLACES {
                    self.advance_hand(slot, lane);
                }
                self.pick_victims_from((slot, lane), places.clone(), (pinned_too, enough), victims);
            }
        }
    }

    /// Picks victims from the queues at these places. Victims that must stay for their group or task move to the end
    /// of a queue of ranges without a lease. So eviction does not meet them again soon.
    fn pick_victims_from(
        &mut self,
        (slot, lane): (u32, u32),
        places: std::ops::Range<usize>,
        (pinned_too, enough): (bool, usize),
        victims: &mut SmallVec<[u32; SEEDS]>,
    ) {
        let mut passed = Vec::new();
        self.victims((slot, lane), places, (pinned_too, enough), (victims, &mut passed));
        for id in passed {
            self.pass_over(id);
        }
    }

    /// Of the first [`CHOICES`] segments, moves the one to the front whose next victim is of the tenant that is furthest
    /// above its share, and of one tenant, the one whose next victim is worth least. With two
    /// choices, segments that filled up by chance evict nearly the same objects as one large segment would.
    pub(crate) fn put_least_first(&self, order: &mut [u32]) {
        let ranks = order.iter().take(CHOICES).map(|&slot| {
            let mut lanes = self.lanes_that_give_way(slot).into_iter();
            lanes.find_map(|lane| {
                let rank = self.least_rank_in((slot, lane), PLAIN_PLACES)?;
                Some((Reverse(self.excess(lane)), rank))
            })
        });
        let ranks = ranks.enumerate().filter_map(|(place, least)| Some((least?, place)));
        if let Some((_, place)) = ranks.min() {
            order.swap(0, place);
        }
    }

    /// The rank of the range of a lane on a segment that is evicted next, of those in the queues at these places.
    pub(crate) fn least_rank_in(
        &self,
        (slot, lane): (u32, u32),
        places: std::ops::Range<usize>,
    ) -> Option<EvictionRank> {
        let heads = places.map(|place| self.segments[slot].queue(lane, place).head());
        heads.filter_map(|head| Some(self.first_unleased(head, lane)?.0)).min()
    }

    /// Finds victims among the queues at these places: the ranges that are worth least, and of equal ones the least
    /// recently used. The head of a queue is its oldest range. In a queue of leased ranges its lease ends first, with
    /// one exception. A new replica of an object that was leased before may be behind a lease that ends up to one
    /// lease time later.
    fn victims(
        &self,
        (slot, lane): (u32, u32),
        places: std::ops::Range<usize>,
        (pinned_too, enough): (bool, usize),
        (victims, passed): (&mut SmallVec<[u32; SEEDS]>, &mut Vec<u32>),
    ) {
        if self.is_eviction_paused(slot) {
            return;
        }
        let first = places.map(|place| self.segments[slot].queue(lane, place).head());
        let mut heads: SmallVec<[(EvictionRank, u32); PLAIN_PLACES.end]> =
            first.filter_map(|head| self.first_unleased(head, lane)).collect();
        loop {
            let least = heads.iter().enumerate().min_by_key(|(_, (rank, _))| *rank);
            let Some((first, &(_, id))) = least else { return };
            if !self.victim_stays(self.ranges[id].object, pinned_too) {
                victims.push(id);
                if victims.len() >= enough {
                    return;
                }
            } else if passed.len() == MOST_VICTIMS_PASSED {
                return;
            } else {
                passed.push(id);
            }
            match self.first_unleased(self.ranges[id].next, lane) {
                Some(next) => heads[first] = next,
                None => drop(heads.remove(first)),
            }
        }
    }

    /// The first range without a lease, from this one on in its queue of a lane. Leased ranges are in front of others
    /// only where objects keep their places.
    fn first_unleased(&self, mut id: u32, lane: u32) -> Option<(EvictionRank, u32)> {
        let looks = if self.usage.keeps_places() { MOST_VICTIMS_PASSED } else { 1 };
        for _ in 0..looks {
            if id == NONE {
                return None;
            }
            if let Some(rank) = self.rank(id, lane) {
                return Some((rank, id));
            }
            id = self.ranges[id].next;
        }
        None
    }

    /// Whether an object without a lease stays: for its group, or because a task reads it that may take it to another
    /// tier.
    pub(crate) fn victim_stays(&self, object: u32, pinned_too: bool) -> bool {
        let group = self.objects[object].group;
        if group != NONE {
            // The member that the task reads would remain alone.
            return self.group_stays(group, pinned_too)
                || self.config.has_disks() && self.groups.has_task(group);
        }
        self.config.has_disks() && self.has_task(object)
    }

    /// The rank of a range among those of its lane, unless the range is leased. The least rank is evicted first.
    pub(super) fn rank(&self, id: u32, lane: u32) -> Option<EvictionRank> {
        if id == NONE || self.is_range_leased(id) {
            return None;
        }
        let range = &self.ranges[id];
        let hand = || self.segments[range.segment].hand(lane);
        let (worth, age) = self.usage_of(lane).worth(range.class, range.stamp, hand);
        // Worth is never negative, so its bits have the same order as its values.
        Some(EvictionRank { worth: worth.to_bits(), younger: Reverse(age) })
    }

    /// Whether a range, which is in a queue, is of a leased object.
    pub(crate) fn is_range_leased(&self, id: u32) -> bool {
        let range = &self.ranges[id];
        let may_be_leased = range.queue != QueueKind::Fresh || self.usage.keeps_places();
        may_be_leased && self.objects[range.object].leased_until() > self.now
    }

    /// Evicts from crowded segments until they are below the low watermark, in bounded steps. Soft-pinned objects
    /// stay, because there is room.
    pub(crate) fn relieve_crowded(&mut self) {
        let low = self.config.eviction_high_watermark_ratio - self.config.eviction_ratio;
        self.effort.lane = NO_LANE;
        while let Some(slot) = self.segments.first_crowded()
            && self.effort.spend(CHANGE)
        {
            let keys = self.counters.evicted_keys;
            let goal = (self.segments[slot].allocator.capacity() as f64 * low.max(0.0)) as u64;
            let enough = self.segments[slot].kept() <= goal;
            if enough || self.evict_one(slot, false).is_none() {
                self.segments.forget_crowded(slot);
            }
            // A group counts as its objects, and is never split.
            let further = (self.counters.evicted_keys - keys).saturating_sub(1);
            self.effort.spend((further as u32).saturating_mul(CHANGE));
        }
    }
}
