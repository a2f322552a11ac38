use std::collections::BTreeSet;

use mooncake_types::Tick;

use crate::Meta;
use crate::check::{Check, ensure};
use crate::objects::{Object, ObjectState};
use crate::timer::Timer;

impl Meta {
    /// Every entry that a node may hold belongs to a replica, to a running put or copy, or to a tombstone.
    pub(crate) fn every_tombstone_is_of_nothing_else(&self) -> Check {
        // Nodes must drop the entries of an overtaken put, although its writer may still write.
        let is_wanted = |state| state != ObjectState::Overtaken;
        for (id, object) in self.objects.iter().filter(|(_, object)| is_wanted(object.state)) {
            for (_, range) in self.ranges_of(id) {
                let place = (self.offset_of(range), object.version);
                ensure(
                    "no entry of an object, put or copy has a tombstone",
                    !self.tombstones.contains(range.segment, place),
                    || format!("object {id}: {object:?}, {range:?}"),
                )?;
            }
        }
        for (slot, place, entry) in self.tombstones.iter() {
            let segment = self.segments.iter().find(|&(other, _)| other == slot);
            let capacity = segment.map(|(_, segment)| segment.allocator.capacity());
            ensure(
                "a tombstone lies on a mounted segment",
                capacity.is_some_and(|capacity| place.0 + entry.len <= capacity)
                    && self.segments[slot].is_mounted(),
                || format!("segment slot {slot}: {place:?}"),
            )?;
        }
        ensure(
            "a segment that catches up owes its older tombstones",
            self.tombstones.counts_what_is_owed(),
            || format!("{:?}", self.tombstones.catching_up),
        )
    }

    pub(crate) fn every_key_is_named_with_its_older_tombstones(&self) -> Check {
        ensure("a tombstone is found by its key", self.tombstones.is_sound(), || {
            format!("{:?}", self.tombstones)
        })?;
        for (_, (_, version), entry) in self.tombstones.iter() {
            let is_newer =
                |record: &Object| record.state == ObjectState::Complete && record.version > version;
            ensure(
                "a key is named together with its older tombstones",
                !self.index.has_hashed(&self.objects, entry.hash, is_newer)
                    || self.tombstones.precedes(entry.hash),
                || format!("version {version}, {entry:?}"),
            )?;
        }
        Ok(())
    }

    pub(crate) fn every_reservation_ends(&self) -> Check {
        let reservations = || self.tombstones.reserved.iter();
        let expected: BTreeSet<Timer> = reservations().map(|(id, _)| Timer::Release(id)).collect();
        let releases = |&&(_, timer): &&(Tick, Timer)| matches!(timer, Timer::Release(_));
        let timers: Vec<Timer> = self.timers.iter().filter(releases).map(|it| it.1).collect();
        ensure(
            "every reservation has one timer",
            timers.len() == expected.len() && timers.iter().all(|it| expected.contains(it)),
            || format!("{timers:?}, {expected:?}"),
        )?;
        let bytes: u64 = reservations().flat_map(|(_, pieces)| pieces).map(|piece| piece.len).sum();
        let counted = self.tombstones.reserved.len_bytes();
        ensure("reserved bytes are counted", bytes == counted, || {
            format!("{bytes} reserved, {counted} counted")
        })
    }
}
