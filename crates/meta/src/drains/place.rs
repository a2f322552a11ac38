//! Where what is drained goes to.

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
        let named = || job.targets.iter().flat_map(|name| self.segments.named(name)).copied();
        let mut order: Vec<u32> = match job.targets.is_empty() {
            true => self.segments.grantable().to_vec(),
            false => named().collect(),
        };
        order.retain(|&slot| self.segments[slot].takes_puts() && !taken.contains(&slot));
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
        let Some(job) = self.drains.get(number) else { return false };
        let mut named = job.targets.iter().flat_map(|name| self.segments.named(name));
        match job.targets.is_empty() {
            true => !self.segments.grantable().is_empty(),
            false => named.any(|&slot| self.segments[slot].takes_puts()),
        }
    }
}
