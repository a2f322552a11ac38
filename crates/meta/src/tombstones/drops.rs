//! Nodes fetch the tombstones on their segments with their heartbeats, and confirm the drops.

use std::collections::{BTreeMap, BTreeSet};

use mooncake_types::{ClientId, RangeDrop, Reply, SegmentId, Version, limits};

use crate::Meta;
use crate::objects::Range;
use crate::segments::Closed;

impl Meta {
    /// Takes the confirmed drops of a client, and returns the next entries that its nodes must drop.
    pub(crate) fn fetch_drops(
        &mut self,
        from: ClientId,
        dropped: &[RangeDrop],
        limit: u32,
    ) -> Reply {
        for range in dropped {
            let slot = self.segments.find(range.segment);
            let own = slot.filter(|&slot| self.segments[slot].client == from);
            if let Some(slot) = own {
                let place = (range.offset, range.version);
                self.tombstones.confirm(slot, place, range.grant);
                self.catch_up(slot);
            }
        }
        let mut slots = self.segments.of_client(from).to_vec();
        slots.retain(|&slot| !self.segments[slot].is(Closed::Struck));
        let limit = limit.min(limits::MAX_FETCHED_DROPS) as usize;
        let mut drops: Vec<RangeDrop> = Vec::new();
        for slot in slots {
            let segment = self.segments[slot].id;
            let found = self.tombstones.next_of(slot, limit - drops.len());
            let drop = |((offset, version), grant)| RangeDrop { segment, offset, version, grant };
            drops.extend(found.into_iter().map(drop));
        }
        Reply::Drops(drops)
    }

    /// Whether one of these segments of a client has tombstones.
    pub(crate) fn has_drops(&mut self, hosted: &[SegmentId]) -> bool {
        let mut has_some = false;
        for &id in hosted {
            let Some(slot) = self.segments.find(id) else { continue };
            has_some |= self.tombstones.count(slot) > 0;
            match self.segments[slot].is(Closed::Choked) {
                true => self.relieve_choked(slot),
                false => self.catch_up(slot),
            }
        }
        has_some
    }

    /// A segment with too many tombstones takes puts again once their number is down to half of the limit.
    ///
    /// Until then it keeps what it has, however long that takes: its node answers. Without puts the backlog cannot
    /// outgrow the entries that were granted there.
    fn relieve_choked(&mut self, slot: u32) {
        if self.tombstones.count(slot) <= self.config.most_tombstones / 2 {
            self.segments.set(slot, Closed::Choked, false);
        }
    }

    /// A client reports that nodes have dropped these entries. A leased tombstone goes once all its ranges are among
    /// them.
    pub(crate) fn dropped(&mut self, dropped: &[RangeDrop]) -> Reply {
        self.forget_dropped(dropped);
        let mut gone: BTreeMap<(SegmentId, u64, Version), Version> = BTreeMap::new();
        for range in dropped {
            let grant = gone.entry((range.segment, range.offset, range.version)).or_default();
            *grant = range.grant.max(*grant);
        }
        let versions: BTreeSet<Version> = dropped.iter().map(|range| range.version).collect();
        let mut left = BTreeSet::new();
        for version in versions {
            let Some(object) = self.tombstones.leased.of_version(version) else { continue };
            let Some(since) = self.tombstones.leased.since(version) else { continue };
            let is_gone = |(_, range): (u32, &Range)| {
                let segment = &self.segments[range.segment];
                let grant = gone.get(&(segment.id, self.offset_of(range), version));
                !segment.is_mounted() || grant.is_some_and(|&grant| grant >= since)
            };
            if self.ranges_of(object).all(is_gone) {
                self.drop_object(object);
                left.insert(version);
            }
        }
        for range in dropped {
            let Some(slot) = self.segments.find(range.segment) else { continue };
            let place = (range.offset, range.version);
            match left.contains(&range.version) {
                // The version is gone from all nodes, so it needs no tombstone either.
                true => self.tombstones.remove(slot, place),
                false => self.tombstones.confirm(slot, place, range.grant),
            }
        }
        Reply::Done(Ok(()))
    }
}
