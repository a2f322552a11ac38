//! Chooses segments for copies that the master makes by itself.

use std::sync::Arc;

use super::task::{NewTask, Origin};
use crate::Meta;

impl Meta {
    /// Begins a copy of an object to the segment that [`Meta::roomy_segment`] chooses. Returns the name of that
    /// segment. `None` if no segment has room, no replica can be read, or no replica number is free.
    pub(crate) fn copy_to_roomy_segment(
        &mut self,
        object: u32,
        most_used: f64,
        origin: Origin,
    ) -> Option<Arc<str>> {
        let (_, assigned) = self.copy_source(object, None)?;
        self.free_replica_numbers(object).next()?;
        let target = self.roomy_segment(object, most_used)?;
        self.submit_task(NewTask::copy(origin, object, &[&target], assigned));
        Some(target)
    }

    /// The name of the best segment for one more replica of an object, if there is one. The segment must have free
    /// room without an eviction, and no more than the share `most_used` of it may be in use then.
    ///
    /// The function compares [some](Meta::roomy_segments) of the segments that have room. It prefers those furthest
    /// from the existing replicas by failure domains, then the emptiest.
    fn roomy_segment(&mut self, object: u32, most_used: f64) -> Option<Arc<str>> {
        let mut held: Vec<u32> = self.ranges_of(object).map(|(_, range)| range.segment).collect();
        held.sort_unstable();
        let len = self.objects[object].len;
        let slots = self.roomy_segments(len, &held).into_iter();
        let has_room = |&slot: &u32| self.segments[slot].has_free_room(len, most_used);
        let holds_none = |&slot: &u32| self.replicas_on(object, &self.segments[slot].name) == 0;
        let rank = |slot: u32| {
            let nearness = self.segments.nearness_to_any(slot, held.iter().copied());
            (nearness, self.segments[slot].used_permille(), slot)
        };
        let best = slots.filter(has_room).filter(holds_none).map(rank).min()?;
        Some(Arc::clone(&self.segments[best.2].name))
    }
}
