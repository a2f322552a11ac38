//! The invariants of objects, their ranges and queues.

mod beside;
mod groups;
mod replicas;

use std::collections::BTreeMap;

use crate::Meta;
use crate::check::{Check, ensure};
use crate::objects::{ObjectState, PINNED_PLACES, Pin, QueueKind};
use crate::slab::NONE;

impl Meta {
    pub(crate) fn every_key_leads_to_its_object(&self) -> Check {
        let mut indexed = 0;
        for (id, object) in self.objects.iter() {
            let holds = object.state.holds_key();
            indexed += usize::from(holds);
            let found = self.find(&object.key);
            ensure(
                "an object is found by its key if it holds it",
                (found == Some(id)) == holds,
                || format!("object {id}, key {:?}, found {found:?}", object.key),
            )?;
        }
        let in_force = self.objects.iter().filter(|&(id, _)| self.soft_pin_in_force(id)).count();
        ensure(
            "the soft pins in force are counted",
            in_force == self.soft_pins.in_force(),
            || format!("{in_force} in force, {} counted", self.soft_pins.in_force()),
        )?;
        ensure("the index holds nothing else", self.index.len() == indexed, || {
            format!("{} keys, {indexed} objects", self.index.len())
        })
    }

    pub(crate) fn every_object_is_made_of_its_ranges(&self) -> Check {
        let mut counted = 0;
        for (id, object) in self.objects.iter() {
            let mut bytes: BTreeMap<u8, u64> = BTreeMap::new();
            let mut places: BTreeMap<u32, u8> = BTreeMap::new();
            for (range_id, range) in self.ranges_of(id) {
                counted += 1;
                *bytes.entry(range.replica).or_default() += range.len;
                let other = places.insert(range.segment, range.replica);
                let is_apart = other.is_none_or(|replica| replica == range.replica);
                // A replica in several pieces may be moved to a segment that holds one of them.
                let is_striped = || {
                    [Some(range.replica), other]
                        .into_iter()
                        .flatten()
                        .any(|replica| self.is_striped(id, replica))
                };
                ensure(
                    "two replicas of an object in one piece each share no segment",
                    is_apart || is_striped(),
                    || format!("object {id}, segment slot {}", range.segment),
                )?;
                ensure("a range names its object", range.object == id, || {
                    format!("range {range_id} of object {id} names {}", range.object)
                })?;
                ensure(
                    "the ranges of an object are of one class",
                    range.class == self.class_of(id),
                    || format!("range {range_id} of object {id}: {:?}", range.class),
                )?;
            }
            ensure("an object has a replica", !bytes.is_empty(), || format!("object {id}"))?;
            ensure(
                "every replica holds the whole object",
                object.state == ObjectState::Gathering
                    || bytes.values().all(|&sum| sum == object.len),
                || format!("object {id} of {} bytes has replicas of {bytes:?}", object.len),
            )?;
        }
        ensure("every range belongs to an object", counted == self.ranges.len(), || {
            format!("{} ranges, {counted} of objects", self.ranges.len())
        })
    }

    fn is_striped(&self, object: u32, replica: u8) -> bool {
        self.ranges_of(object).filter(|(_, range)| range.replica == replica).count() > 1
    }

    pub(crate) fn every_range_stands_in_the_right_queue(&self) -> Check {
        for (id, range) in self.ranges.iter() {
            let object = &self.objects[range.object];
            let first = object.first_range == id;
            let pinned = self.soft_pin_in_force(range.object);
            let complete = object.state == ObjectState::Complete;
            let right = match range.queue {
                QueueKind::Processing => first && object.state.is_running(),
                QueueKind::Out => match object.state {
                    ObjectState::Copying | ObjectState::Gathering => true,
                    state => !first && state.is_running(),
                },
                QueueKind::Hard => complete && object.pin == Pin::Hard,
                QueueKind::Fresh | QueueKind::Leased => {
                    complete && object.pin != Pin::Hard && !pinned
                }
                QueueKind::PinnedFresh | QueueKind::PinnedLeased => complete && pinned,
                QueueKind::Tombstone => object.state == ObjectState::Tombstone,
                QueueKind::Extra | QueueKind::Sinking => complete,
            };
            ensure("a range stands in the queue of its state", right, || {
                format!("range {id}: {range:?} of {object:?}")
            })?;
        }
        Ok(())
    }

    pub(crate) fn every_allocator_reserves_just_what_is_known(&self) -> Check {
        let mut extents: BTreeMap<u32, Vec<(u64, u64)>> = BTreeMap::new();
        let of_objects = self.ranges.iter().map(|(_, it)| (it.segment, it.handle, it.len));
        let of_none = self.tombstones.reserved().iter().flat_map(|(_, pieces)| pieces);
        let of_none = of_none.map(|piece| (piece.segment, piece.handle, piece.len));
        for (slot, handle, len) in of_objects.chain(of_none) {
            let reserved = self.segments[slot].allocator.range(handle);
            ensure("a range has room for its bytes", reserved.len >= len, || {
                format!("segment slot {slot}: {len} bytes in {reserved:?}")
            })?;
            extents.entry(slot).or_default().push((reserved.offset, reserved.len));
        }
        for (slot, segment) in self.segments.iter() {
            let mut mine = extents.remove(&slot).unwrap_or_default();
            mine.sort_unstable();
            let apart = mine.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0);
            let inside =
                mine.last().is_none_or(|&(at, len)| at + len <= segment.allocator.capacity());
            ensure("no two ranges overlap and all lie in their segment", apart && inside, || {
                format!("segment slot {slot}: {mine:?}")
            })?;
            let sum: u64 = mine.iter().map(|&(_, len)| len).sum();
            ensure(
                "an allocator has reserved what objects and reservations hold, and nothing else",
                (sum, mine.len()) == (segment.allocator.used(), segment.allocator.allocations()),
                || format!("segment slot {slot}: {sum} bytes in {} ranges", mine.len()),
            )?;
            let sound = segment.allocator.check();
            ensure("every allocator is sound", sound.is_ok(), || {
                format!("slot {slot}: {sound:?}")
            })?;
        }
        Ok(())
    }

    pub(crate) fn every_queue_is_in_order(&self) -> Check {
        let leased_until = |id: u32| self.objects[self.ranges[id].object].leased_until();
        for (slot, segment) in self.segments.iter() {
            for (lane, place, queue) in segment.all_queues() {
                let members: Vec<u32> = queue.iter(&self.ranges).collect();
                ensure(
                    "a queue holds ranges of its segment, kind and class, and as many as it says",
                    members.len() == queue.len() as usize
                        && members.iter().all(|&id| {
                            let range = &self.ranges[id];
                            let right = range.queue.on_segment(range.class);
                            let is_lane = place >= PINNED_PLACES.end
                                || self.lane_on(range.object, slot) == lane;
                            (range.segment, right) == (slot, Some(place)) && is_lane
                        }),
                    || format!("slot {slot}, lane {lane}, queue {place}: {members:?}"),
                )?;
                let Some(&first) = members.first() else { continue };
                let kind = self.ranges[first].queue;
                // A new replica of a leased object is last in its queue, behind leases that may end later than its
                // own.
                let lease_ms = self.config.lease_ttl_ms;
                let sorted = members
                    .windows(2)
                    .all(|pair| leased_until(pair[0]) <= leased_until(pair[1]).after_ms(lease_ms));
                let ordered = matches!(kind, QueueKind::Leased | QueueKind::PinnedLeased);
                ensure(
                    "leased ranges are in the order of their leases, or less than a lease apart",
                    sorted || !ordered,
                    || format!("slot {slot}: {members:?}"),
                )?;
                let over = members.iter().all(|&id| leased_until(id) <= self.now);
                let fresh = matches!(kind, QueueKind::Fresh | QueueKind::PinnedFresh);
                let may_be = self.usage.keeps_places();
                ensure("fresh ranges have no lease", over || !fresh || may_be, || {
                    format!("slot {slot}")
                })?;
            }
        }
        let members: Vec<u32> = self.running.iter(&self.ranges).collect();
        let sorted = members.windows(2).all(|pair| leased_until(pair[0]) <= leased_until(pair[1]));
        ensure(
            "puts are in the order of their starts",
            sorted && members.len() == self.running.len() as usize && !members.contains(&NONE),
            || format!("{members:?}"),
        )
    }
}
