//! Chooses the segments to which a drain moves replicas.

use super::job::Drain;
use crate::Meta;
use crate::segments::Pieces;

impl Meta {
    /// The first replica of an object that a drain job still has to move.
    pub(crate) fn drained_replica(&mut self, number: u32, object: u32) -> Option<u8> {
        self.drains.get(number)?;
        let slots = self.drained_slots(number);
        let mut ranges = self.ranges_of(object);
        ranges
            .find(|(_, range)| slots.binary_search(&range.segment).is_ok())
            .map(|(_, range)| range.replica)
    }

    /// Reserves ranges for a replica to move, on segments that hold no other replica of its object. Evicts nothing,
    /// and leaves the segments below the mark at which they evict.
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
        // Prefer a host, and a rack, without another replica.
        order.sort_by_cached_key(|&slot| {
            let segment = &self.segments[slot];
            let faults = job.faults.get(&segment.id).copied().unwrap_or(0);
            let nearness = self.segments.nearness_to_any(slot, taken.iter().copied());
            (faults, nearness, segment.used_permille(), slot)
        });
        self.place_whole(self.objects[object].len, &order)
    }

    /// Whether any segment, even a full one, can be a target of a drain job.
    pub(super) fn has_target(&self, number: u32) -> bool {
        self.drains.get(number).is_some_and(|job| !self.drain_targets(job).is_empty())
    }

    /// The segments that can be targets of a drain job, full ones included.
    fn drain_targets(&self, job: &Drain) -> Vec<u32> {
        let named = job.targets.iter().flat_map(|name| self.segments.named(name)).copied();
        match job.targets.is_empty() {
            true => self.segments.grantable().to_vec(),
            false => named.filter(|&slot| self.segments[slot].takes_puts()).collect(),
        }
    }
}
