use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use mooncake_types::{
    Chance, ErrorCode, Located, Medium, Placement, RangeRead, SegmentAddress, SegmentId, Tick,
    Version,
};

use crate::op::RangeToRead;
use crate::placements::{is_own, placements_are_whole, replicas};
use crate::span::{Span, cut};

/// Approximate size of a segment's address, in bytes.
const SEGMENT_BYTES: usize = 128;

/// Where one version of an object lies, and until when a client may read there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    located: Located,
    segments: Arc<[SegmentAddress]>,
    lease_end: Tick,
}

/// Tells one replica from another by its version and the start of its first range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReplicaStart {
    version: Version,
    segment: SegmentId,
    offset: u64,
}

impl Route {
    /// A route that the master named; [`ErrorCode::InternalError`] if its placements are not whole replicas.
    pub fn new(
        located: Located,
        segments: &Arc<[SegmentAddress]>,
        lease_end: Tick,
    ) -> Result<Self, ErrorCode> {
        if !placements_are_whole(&located.placements, segments, located.len) {
            return Err(ErrorCode::InternalError);
        }
        Ok(Self { located, segments: Arc::clone(segments), lease_end })
    }

    /// The version that lies there.
    #[must_use]
    pub fn version(&self) -> Version {
        self.located.version
    }

    /// Length of the object in bytes.
    #[must_use]
    pub fn object_len(&self) -> u64 {
        self.located.len
    }

    /// The end of the lease. From then on, the route may not be used.
    #[must_use]
    pub fn lease_end(&self) -> Tick {
        self.lease_end
    }

    /// Where the replica starts whose placements are `reading`.
    pub(crate) fn replica_start(&self, reading: &Range<usize>) -> ReplicaStart {
        let first = &self.located.placements[reading.start];
        ReplicaStart {
            version: self.located.version,
            segment: self.segments[first.segment as usize].id,
            offset: first.offset,
        }
    }

    /// Where each replica starts.
    pub(crate) fn replica_starts(&self) -> impl Iterator<Item = ReplicaStart> {
        let mut start = 0;
        replicas(&self.located.placements).map(move |ranges| {
            let replica = start..start + ranges.len();
            start = replica.end;
            self.replica_start(&replica)
        })
    }

    /// Approximate size in memory, in bytes.
    pub(crate) fn len_bytes(&self) -> usize {
        size_of::<Self>()
            + size_of_val(&*self.located.placements)
            + SEGMENT_BYTES * self.segments.len().min(self.located.placements.len())
    }

    /// The same route with only the segments that it uses; `None` if there is nothing to leave out.
    pub(crate) fn compact(&self) -> Option<Self> {
        let wanted = self.located.placements.len();
        if self.segments.len() <= wanted {
            return None;
        }
        let mut located = self.located.clone();
        let mut segments = Vec::with_capacity(wanted);
        for (range, number) in located.placements.iter_mut().zip(0..) {
            segments.push(self.segments[range.segment as usize].clone());
            range.segment = number;
        }
        Some(Self { located, segments: segments.into(), lease_end: self.lease_end })
    }

    /// Chooses a replica that has not failed, and returns its placements. The order of media is memory, disk, a disk
    /// that hosts share, object store. On equal media a replica in `own` segments wins. Chance decides among equals.
    pub(crate) fn choose(
        &self,
        own: &[SegmentId],
        chance: &mut Chance,
        has_failed: impl Fn(&ReplicaStart) -> bool,
    ) -> Option<Range<usize>> {
        let mut chosen = None;
        let mut candidates = 0;
        let mut start = 0;
        for ranges in replicas(&self.located.placements) {
            let reading = start..start + ranges.len();
            start = reading.end;
            if has_failed(&self.replica_start(&reading)) {
                continue;
            }
            let cost = (self.medium(ranges), !is_own(ranges, &self.segments, own));
            match chosen.as_ref().map(|(least, _)| cost.cmp(least)) {
                None | Some(Ordering::Less) => (chosen, candidates) = (Some((cost, reading)), 1),
                Some(Ordering::Greater) => {}
                Some(Ordering::Equal) => {
                    candidates += 1;
                    // Each of n candidates ends up chosen with the same chance, 1/n.
                    if chance.below(candidates) == 0 {
                        chosen = Some((cost, reading));
                    }
                }
            }
        }
        chosen.map(|(_, reading)| reading)
    }

    /// Whether a replica lies in memory alone. If none does, the master may be about to promote one.
    pub(crate) fn is_in_memory(&self) -> bool {
        replicas(&self.located.placements).any(|ranges| self.medium(ranges) == Medium::Memory)
    }

    /// The medium of a replica: a disk, if one of its ranges lies on a disk.
    fn medium(&self, ranges: &[Placement]) -> Medium {
        let media = ranges.iter().map(|range| self.segments[range.segment as usize].medium);
        media.max().unwrap_or_default()
    }

    /// Adds the reads of these spans of the object from one replica.
    pub(crate) fn fetches_into(
        &self,
        position: usize,
        reading: &Range<usize>,
        spans: &[Span],
        fetches: &mut Vec<RangeToRead>,
    ) {
        let ranges: &[Placement] = &self.located.placements[reading.clone()];
        cut(ranges, spans, |cut| {
            let segment = &self.segments[cut.range.segment as usize];
            fetches.push(RangeToRead {
                position,
                endpoint: Arc::clone(&segment.endpoint),
                medium: segment.medium,
                range: RangeRead {
                    segment: segment.id,
                    offset: cut.range.offset,
                    version: self.located.version,
                    object_offset: cut.object_offset,
                    from: cut.from,
                    len: cut.len,
                    seal: cut.range.seal,
                },
                at: cut.at,
                object_len: self.located.len,
            });
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The segment of the chosen replica. Each replica lies on a segment of its own, from 1 on.
    fn chosen(media: &[Medium], own: &[u128], failed: &[u128], seed: u64) -> Option<u128> {
        let segments = (1..).zip(media).map(|(number, &medium)| SegmentAddress {
            id: SegmentId(number),
            name: "n".into(),
            endpoint: "e".into(),
            medium,
        });
        let segments: Arc<[SegmentAddress]> = segments.collect();
        let place =
            |at: u32| Placement { replica: at, segment: at, len: 10, ..Placement::default() };
        let placements = (0..media.len() as u32).map(place).collect();
        let located = Located { version: Version::default(), len: 10, placements };
        let route = Route::new(located, &segments, Tick(0)).expect("it is whole");
        let own: Vec<SegmentId> = own.iter().map(|&id| SegmentId(id)).collect();
        let has_failed = |place: &ReplicaStart| failed.contains(&place.segment.0);
        let reading = route.choose(&own, &mut Chance::new(seed), has_failed)?;
        Some(route.replica_start(&reading).segment.0)
    }

    #[test]
    fn memory_is_read_before_disks_and_the_own_node_before_others() {
        use Medium::{Disk, Memory, ObjectStore, SharedDisk};
        for (media, own, failed, expected) in [
            (&[Disk, Memory][..], &[][..], &[][..], Some(2)),
            (&[Disk, Memory], &[1], &[], Some(2)),
            (&[Disk, Memory, Memory], &[1, 3], &[], Some(3)),
            (&[Disk, Memory, Disk], &[3], &[2], Some(3)),
            (&[Disk, Memory], &[], &[2], Some(1)),
            (&[Disk], &[], &[1], None),
            (&[SharedDisk, Disk], &[1], &[], Some(2)),
            (&[SharedDisk, Disk, Memory], &[], &[3], Some(2)),
            (&[SharedDisk, Disk], &[], &[2], Some(1)),
            (&[ObjectStore, SharedDisk, Disk], &[1], &[3], Some(2)),
            (&[ObjectStore, Memory], &[1], &[], Some(2)),
        ] {
            for seed in 0..8 {
                let found = chosen(media, own, failed, seed);
                assert_eq!(found, expected, "{media:?}, own {own:?}, failed {failed:?}");
            }
        }
        let spread: Vec<Option<u128>> =
            (0..64).map(|seed| chosen(&[Memory, Memory], &[], &[], seed)).collect();
        assert!(
            spread.contains(&Some(1)) && spread.contains(&Some(2)),
            "equal ones share the reads"
        );
    }
}
