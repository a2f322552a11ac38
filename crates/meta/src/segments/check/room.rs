use mooncake_types::SegmentId;

use crate::Meta;
use crate::check::{Check, ensure};
use crate::eviction::MOST_BARREN_MS;
use crate::objects::{EXTRA_PLACE, PINNED_PLACES, PLAIN_PLACES, QueueKind};
use crate::placement::MOST_EVICTED;

impl Meta {
    pub(crate) fn every_room_is_noted(&self) -> Check {
        for (id, range) in self.ranges.iter() {
            let owner = self.segments[range.segment].owner(range.handle);
            ensure("a range is found by its place", owner == Some(id), || {
                format!("range {id}: {range:?}, {owner:?}")
            })?;
        }
        let pinned = if self.config.allow_evict_soft_pinned { PINNED_PLACES } else { 0..0 };
        let (soon, again) = (self.now.after_ms(1), self.now.after_ms(MOST_BARREN_MS));
        for (slot, segment) in self.segments.iter() {
            let noted = self.segments.noted_room(slot);
            ensure("the room of a segment is noted", noted.is_none_or(|(a, b)| a == b), || {
                format!("slot {slot}: {noted:?}")
            })?;
            let is_wanted = |place: usize| {
                PLAIN_PLACES.contains(&place) || pinned.contains(&place) || place == EXTRA_PLACE
            };
            for (_, place, queue) in segment.all_queues().filter(|&(_, place, _)| is_wanted(place))
            {
                // Leases need not end in the order of their queue.
                let met = |id: u32| match self.ranges[id].queue {
                    QueueKind::Leased | QueueKind::PinnedLeased => again,
                    _ => soon,
                };
                let end =
                    |id: u32| self.objects[self.ranges[id].object].leased_until().max(met(id));
                let mut ends = queue.iter(&self.ranges).map(end);
                ensure(
                    "nothing can be evicted before the moment that is noted",
                    ends.all(|end| segment.evictable_from <= end),
                    || format!("slot {slot}, queue {place}: {:?}", segment.evictable_from),
                )?;
            }
        }
        Ok(())
    }

    /// Checks that a put of `len` bytes that was just refused had to be refused. On no segment that it may use can
    /// one range be evicted at the price that makes enough room with the free bytes beside it. Windows of several
    /// ranges are not looked for. A segment that had nothing to evict a moment before counts as such for a while.
    ///
    /// Takes time in proportion to the whole state; of use where each segment has few ranges.
    ///
    /// # Errors
    /// The range that could have made room.
    pub fn check_refusal(&mut self, len: u64, avoided: &[SegmentId]) -> Check {
        for slot in self.segments.grantable().to_vec() {
            let allocator = &self.segments[slot].allocator;
            if avoided.contains(&self.segments[slot].id) || !allocator.joins_neighbours() {
                continue;
            }
            ensure("what is free is granted", allocator.largest_free() < len, || {
                format!("slot {slot}: {}", allocator.largest_free())
            })?;
            if self.segments[slot].evictable_from > self.now {
                continue;
            }
            let here = self.ranges.iter().filter(|(_, range)| range.segment == slot);
            for (id, handle) in here.map(|(id, range)| (id, range.handle)).collect::<Vec<_>>() {
                let sides = self.segments.neighbours(slot, handle);
                let free: u64 = sides.iter().map(|beside| beside.free).sum();
                let room = self.segments[slot].allocator.range(handle).len + free;
                let is_cheap = self.cost_of(id) <= len.saturating_mul(MOST_EVICTED);
                let is_room = room >= len && is_cheap && self.is_evictable(id);
                ensure("what is refused finds no room at its price", !is_room, || {
                    format!("{len} bytes, slot {slot}, range {id}: {:?}", self.ranges[id])
                })?;
            }
        }
        Ok(())
    }

    /// The most bytes that are evicted with one range: those of its replica, or of its group, wherever these lie.
    /// Takes time in proportion to the whole state.
    #[must_use]
    pub fn dearest_victim(&self) -> u64 {
        self.ranges.iter().map(|(id, _)| self.cost_of(id)).max().unwrap_or(0)
    }

    fn is_evictable(&self, id: u32) -> bool {
        let range = &self.ranges[id];
        let object = &self.objects[range.object];
        let pinned_too = self.config.allow_evict_soft_pinned;
        let gives_way = self.gives_way(self.lane_on(range.object, range.segment));
        let goes = gives_way && !self.victim_stays(range.object, pinned_too);
        object.leased_until() <= self.now
            && match range.queue {
                QueueKind::Fresh | QueueKind::Leased => goes,
                QueueKind::PinnedFresh | QueueKind::PinnedLeased => goes && pinned_too,
                _ => false,
            }
    }
}
