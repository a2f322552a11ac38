//! Seals what replies allow at nodes, with the keys that the nodes told this leader.

use std::collections::HashMap;

use mooncake_types::{
    Grant, Located, MountOutcome, MountSegment, Placement, PutItem, PutStart, RangeDrop,
    RangeWrite, RemainingRange, Remains, Reply, Request, Seal, SealKey, SegmentAddress, SegmentId,
    SegmentPage, TaskOrder, TaskOrders, Version,
};

use crate::{on_drop, on_follow, on_read_at, on_write};

/// From this many keys on, those of segments that have left are looked for.
const MANY: usize = 64;

/// The keys of the mounted segments, for one term of a master. Without any, replies stay as they are.
#[derive(Debug, Default)]
pub struct Sealer {
    keys: HashMap<SegmentId, SealKey>,
    /// How many keys were left when those of segments that have left were removed last.
    left: usize,
}

/// The keys of the segments that a reply lists, in their order.
type Keys = Vec<Option<SealKey>>;

impl Sealer {
    /// Learns the key of a segment from its mount, and seals what the reply allows. `is_mounted` says whether the master has
    /// a segment.
    pub fn handle(
        &mut self,
        request: &Request<'_>,
        reply: &mut Reply,
        is_mounted: impl Fn(SegmentId) -> bool,
    ) {
        if let (Request::MountSegment(mount), Reply::Mounted(outcome)) = (request, &*reply)
            && *outcome != MountOutcome::StartEmpty
        {
            self.learn(mount, is_mounted);
        }
        if !self.keys.is_empty() {
            self.seal(request, reply);
        }
    }

    fn learn(&mut self, mount: &MountSegment<'_>, is_mounted: impl Fn(SegmentId) -> bool) {
        match mount.seal_key {
            Some(key) => self.keys.insert(mount.id, key),
            None => self.keys.remove(&mount.id),
        };
        if self.keys.len() > MANY.max(2 * self.left) {
            self.keys.retain(|&id, _| is_mounted(id));
            self.left = self.keys.len();
        }
    }

    fn seal(&self, request: &Request<'_>, reply: &mut Reply) {
        match reply {
            Reply::Granted { results, segments } => {
                let Request::PutStart(PutStart { puts, .. }) = request else { return };
                let keys = self.keys_of(segments);
                for (item, grant) in puts.iter().zip(results) {
                    if let Ok(grant) = grant {
                        seal_grant((&keys, segments), item, grant);
                    }
                }
            }
            Reply::Located { results, successors, predecessors, segments, .. } => {
                let keys = self.keys_of(segments);
                let newer = successors.iter_mut().map(|(_, located)| located);
                for Located { version, placements, .. } in results.iter_mut().flatten().chain(newer)
                {
                    seal_reads((&keys, segments), *version, placements);
                }
                for (_, range) in predecessors {
                    seal_drop((&keys, segments), range);
                }
            }
            Reply::Remaining { remains, .. } => self.seal_remains(remains),
            Reply::Scanned(page) => self.seal_remains(&mut page.remains),
            Reply::TasksFetched(TaskOrders { orders, segments }) => {
                let keys = self.keys_of(segments);
                orders.iter_mut().for_each(|order| seal_order((&keys, segments), order));
            }
            Reply::Segments(page) => self.seal_follows(page),
            _ => {}
        }
    }

    fn seal_remains(&self, remains: &mut Remains) {
        let keys = self.keys_of(&remains.segments);
        for range in &mut remains.ranges {
            seal_drop((&keys, &remains.segments), range);
        }
    }

    fn seal_follows(&self, page: &mut SegmentPage) {
        for listed in &mut page.segments {
            listed.seal = self.follow_seal(listed.address.id);
        }
    }

    /// The seal on following a segment.
    #[must_use]
    pub fn follow_seal(&self, id: SegmentId) -> Seal {
        self.keys.get(&id).map_or(Seal::NONE, |key| on_follow(key, id))
    }

    fn keys_of(&self, segments: &[SegmentAddress]) -> Keys {
        segments.iter().map(|segment| self.keys.get(&segment.id).copied()).collect()
    }
}

/// The key and the id of the segment with this number.
fn find((keys, segments): (&Keys, &[SegmentAddress]), number: u32) -> Option<(SealKey, SegmentId)> {
    let number = number as usize;
    Some((keys[number]?, segments[number].id))
}

fn seal_grant(known: (&Keys, &[SegmentAddress]), item: &PutItem<'_>, grant: &mut Grant) {
    let Grant { version, placements, attributes, drop_seals } = grant;
    let write = written(item.key, item.len, (*version, *version), attributes);
    seal_writes(known, &write, placements);
    let drops = placements.iter().map(|place| {
        let (offset, version) = (place.offset, *version);
        find(known, place.segment).map_or(Seal::NONE, |(key, segment)| {
            on_drop(&key, &RangeDrop { segment, offset, version, grant: version })
        })
    });
    *drop_seals = drops.collect();
}

fn seal_order(known: (&Keys, &[SegmentAddress]), order: &mut TaskOrder) {
    seal_reads(known, order.version, &mut order.source);
    let versions = (order.version, order.grant);
    let write = written(&order.key, order.len, versions, &order.attributes);
    seal_writes(known, &write, &mut order.targets);
}

/// A write of an object under a grant, without its place.
fn written<'a>(
    key: &'a str,
    object_len: u64,
    (version, grant): (Version, Version),
    attributes: &'a [u8],
) -> RangeWrite<'a> {
    RangeWrite {
        segment: SegmentId(0),
        offset: 0,
        entry_len: 0,
        from: 0,
        len: 0,
        key,
        version,
        grant,
        object_len,
        object_offset: 0,
        attributes,
        seal: Seal::NONE,
    }
}

fn seal_writes(
    known: (&Keys, &[SegmentAddress]),
    write: &RangeWrite<'_>,
    placements: &mut [Placement],
) {
    let (mut replica, mut object_offset) = (None, 0);
    for place in placements {
        if replica.replace(place.replica) != Some(place.replica) {
            object_offset = 0;
        }
        if let Some((key, segment)) = find(known, place.segment) {
            let (offset, entry_len) = (place.offset, place.len);
            let range = RangeWrite { segment, offset, entry_len, object_offset, ..*write };
            place.seal = on_write(&key, &range);
        }
        object_offset += place.len;
    }
}

fn seal_reads(known: (&Keys, &[SegmentAddress]), version: Version, placements: &mut [Placement]) {
    for place in placements {
        if let Some((key, segment)) = find(known, place.segment) {
            place.seal = on_read_at(&key, segment, place.offset, version);
        }
    }
}

fn seal_drop(known: (&Keys, &[SegmentAddress]), range: &mut RemainingRange) {
    let RemainingRange { offset, version, grant, .. } = *range;
    if let Some((key, segment)) = find(known, range.segment) {
        range.seal = on_drop(&key, &RangeDrop { segment, offset, version, grant });
    }
}

#[cfg(test)]
mod tests {
    use mooncake_types::{Epoch, Medium};

    use super::*;

    /// Two replicas in stripes of different lengths. The last segment has no key: its node checks no seals.
    #[test]
    fn each_stripe_is_sealed_as_its_writer_will_name_it() {
        let (version, key) = (Version { epoch: Epoch(3), counter: 7 }, SealKey([9; 16]));
        let address = |id| SegmentAddress {
            id: SegmentId(id),
            name: "name".into(),
            endpoint: "node:1".into(),
            medium: Medium::Memory,
        };
        let segments: Vec<SegmentAddress> = (1..=3).map(address).collect();
        let keys: Keys = vec![Some(key), Some(key), None];
        let place = |replica, segment, offset, len| Placement {
            replica,
            segment,
            offset,
            len,
            seal: Seal::NONE,
        };
        let placements = vec![
            place(0, 0, 64, 40),
            place(0, 1, 128, 60),
            place(1, 1, 512, 70),
            place(1, 2, 0, 30),
        ];
        let mut grant = Grant { version, placements, ..Grant::default() };
        seal_grant((&keys, &segments), &PutItem::new("key", 100), &mut grant);
        let write = written("key", 100, (version, version), &[]);
        let right = |place: &Placement, object_offset| {
            let segment = segments[place.segment as usize].id;
            let (offset, entry_len) = (place.offset, place.len);
            let range = RangeWrite { segment, offset, entry_len, object_offset, ..write };
            on_write(&key, &range)
        };
        let found: Vec<Seal> = grant.placements.iter().map(|place| place.seal).collect();
        let [first, second, third, _] = &grant.placements[..] else { panic!("there are four") };
        assert_eq!(found, [right(first, 0), right(second, 40), right(third, 0), Seal::NONE]);
        assert_eq!(grant.drop_seals.len(), 4);
        assert_eq!(grant.drop_seals.iter().filter(|&&seal| seal == Seal::NONE).count(), 1);
    }
}
