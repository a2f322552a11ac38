//! Where the master's own copies go.

use std::sync::Arc;

use super::task::{NewTask, Origin};
use crate::Meta;

/// Segments that are looked at for one copy.
const MOST_SEGMENTS: usize = 64;

impl Meta {
    /// Has one more replica made of an object, as [`Meta::roomy_segment`] says where. Gives the name of its segment; none
    /// if there is no room, or nothing to read it from.
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

    /// The name of a segment for one more replica of an object, if there is one with room that nobody has to be evicted
    /// for, and of which no more than this share is in use then. Those come first that are furthest from the replicas that there
    /// are, by their failure domains, and then the emptiest. Some segments are looked at, from all over the pool.
    fn roomy_segment(&mut self, object: u32, most_used: f64) -> Option<Arc<str>> {
        let count = self.segments.grantable().len();
        if count == 0 {
            return None;
        }
        let start = self.chance.place(count);
        let looked_at = count.min(MOST_SEGMENTS);
        // Segments of one rack often stand side by side.
        let places = (0..looked_at).map(|number| (start + number * count / looked_at) % count);
        let slots = places.map(|place| self.segments.grantable()[place]);
        let has_room =
            |&slot: &u32| self.segments[slot].has_free_room(self.objects[object].len, most_used);
        let holds_none = |&slot: &u32| self.replicas_on(object, &self.segments[slot].name) == 0;
        let rank = |slot: u32| {
            let held = self.ranges_of(object).map(|(_, range)| range.segment);
            let nearness = self.segments.nearness_to_any(slot, held);
            (nearness, self.segments[slot].used_permille(), slot)
        };
        let best = slots.filter(has_room).filter(holds_none).map(rank).min()?;
        Some(Arc::clone(&self.segments[best.2].name))
    }
}
