//! Where what is drained goes to.

use super::job::Drain;
use crate::Meta;
use crate::segments::Pieces;

impl Meta {
    /// The replica that a drain job has yet to move of an object.
    pub(crate) fn drained_replica(&mut self, number: u32, object: u32) -> Option<u8> {
        self.drains.get(number)?;
        let slots = self.drained_slots(number);
        let mut ranges = self.ranges_of(object);
        ranges
            .find(|(_, range)| slots.binary_search(&range.segment).is_ok())
            .map(|(_, range)| range.replica)
    }

    /// Reserves ranges for a replica that is to be moved away, where no other replica lies. Nothing is evicted for it, now
    /// or because of it.
    pub(crate) fn place_drained(
        &mut self,
        number: u32,
        object: u32,
        replica: u8,
    ) -> Option<Pieces> {
        self.free_replica_numbers(object).next()?;
        let others = self.ranges_of(object).filter(|(_, range)| range.replica != replica);
        let taken: Vec<u32> = others.map(|(_, range)| range.segment).collect();
        let job = self.drains.get(number)?;
        let mut order = self.drain_targets(job);
        order.retain(|slot| !taken.contains(slot));
        // No host should hold two replicas if there is another, and no rack.
        order.sort_by_cached_key(|&slot| {
            let segment = &self.segments[slot];
            let faults = job.faults.get(&segment.id).copied().unwrap_or(0);
            let nearness = self.segments.nearness_to_any(slot, taken.iter().copied());
            (faults, nearness, segment.used_permille(), slot)
        });
        self.place_whole(self.objects[object].len, &order)
    }

    /// Whether any segment takes what a drain job moves, be it full or not.
    pub(super) fn has_target(&self, number: u32) -> bool {
        self.drains.get(number).is_some_and(|job| !self.drain_targets(job).is_empty())
    }

    /// The segments that take what a drain job moves, be they full or not.
    fn drain_targets(&self, job: &Drain) -> Vec<u32> {
        let named = job.targets.iter().flat_map(|name| self.segments.named(name)).copied();
        match job.targets.is_empty() {
            true => self.segments.grantable().to_vec(),
            false => named.filter(|&slot| self.segments[slot].takes_puts()).collect(),
        }
    }
}
