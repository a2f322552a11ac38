//! Chooses the segments to which a drain moves replicas.

use mooncake_alloc::class_of;
use mooncake_types::limits;

use super::job::{Drain, SourceStage};
use crate::Meta;
use crate::placement::Slots;
use crate::segments::Pieces;

impl Meta {
    /// Whether a slot is one of those from which a job still moves replicas.
    pub(super) fn is_drained_by(&self, number: u32, slot: u32) -> bool {
        let segment = &self.segments[slot];
        let drains = |job: &Drain| job.stage_of(segment.id) == Some(SourceStage::Draining);
        segment.is_mounted() && self.drains.get(number).is_some_and(drains)
    }

    /// The first replica of an object that a drain job still has to move.
    pub(crate) fn drained_replica(&self, number: u32, object: u32) -> Option<u8> {
        let mut ranges = self.ranges_of(object);
        let first = ranges.find(|(_, range)| self.is_drained_by(number, range.segment));
        first.map(|(_, range)| range.replica)
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
        self.drains.get(number)?;
        let others = self.ranges_of(object).filter(|(_, range)| range.replica != replica);
        let mut held: Vec<u32> = others.map(|(_, range)| range.segment).collect();
        held.sort_unstable();
        let len = self.objects[object].len;
        let order = match self.named_targets(number, class_of(len), &held) {
            Some(named) => named,
            None => self.roomy_segments(len, &held),
        };
        let order = self.in_order(number, order, &held);
        if let Some(pieces) = self.place_below_mark(len, &order) {
            return Some(pieces);
        }
        if len < 2 * limits::MIN_STRIPE_BYTES {
            return None;
        }
        let class = class_of(limits::MIN_STRIPE_BYTES.max(len / limits::MAX_STRIPES as u64));
        let order = match self.named_targets(number, class, &held) {
            Some(named) => named,
            None => self.some_roomy(class, limits::MAX_STRIPES, &held),
        };
        let order = self.in_order(number, order, &held);
        self.scatter_below_mark(len, &order)
    }

    /// Sorts segments: first those to which fewer moves failed, then those on other hosts and racks than the other
    /// replicas, then the emptiest.
    fn in_order(&self, number: u32, mut slots: Slots, held: &[u32]) -> Slots {
        let faults = |id| self.drains.get(number).and_then(|job| job.faults.get(&id)).copied();
        slots.sort_by_cached_key(|&slot| {
            let segment = &self.segments[slot];
            let nearness = self.segments.nearness_to_any(slot, held.iter().copied());
            (faults(segment.id).unwrap_or(0), nearness, segment.used_permille(), slot)
        });
        slots
    }

    /// Of the segments that the order of a job names, those that may have a free range of a size class and hold none
    /// of the other replicas. None if the order names no segment.
    fn named_targets(&mut self, number: u32, class: u32, held: &[u32]) -> Option<Slots> {
        let job = self.drains.get(number).filter(|job| !job.targets.is_empty())?;
        let named = job.targets.iter().flat_map(|name| self.segments.named(name)).copied();
        let mut looked_at = 0;
        let suits = |slot: &u32| {
            looked_at += 1;
            let segment = &self.segments[*slot];
            segment.takes_puts()
                && segment.room().class_below_mark >= class
                && held.binary_search(slot).is_err()
        };
        let found = named.filter(suits).collect();
        self.effort.spend(looked_at);
        Some(found)
    }

    /// Whether any segment, even a full one, can be a target of a drain job.
    pub(super) fn has_target(&self, number: u32) -> bool {
        let Some(job) = self.drains.get(number) else { return false };
        let mut named = job.targets.iter().flat_map(|name| self.segments.named(name));
        match job.targets.is_empty() {
            true => !self.segments.grantable().is_empty(),
            false => named.any(|&slot| self.segments[slot].takes_puts()),
        }
    }
}
