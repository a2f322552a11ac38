use std::ops::Range;
use std::sync::Arc;

use mooncake_types::{
    Chance, ErrorCode, Located, Placement, RangeRead, SegmentAddress, SegmentId, Tick, Version,
};

use crate::op::Fetch;
use crate::placements::{is_own, placements_are_whole, replicas};
use crate::span::{Span, cut};

/// What a segment's address takes, in bytes, about.
const SEGMENT_BYTES: usize = 128;

/// Where one version of an object lies, and how long that may be relied on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    located: Located,
    segments: Arc<[SegmentAddress]>,
    lease_end: Tick,
}

/// Where a replica starts, as far as telling one from another needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReplicaStart {
    version: Version,
    segment: SegmentId,
    offset: u64,
}

impl Route {
    /// A route told by the master; an internal error if it makes no sense.
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

    /// From when on the route may not be used any more.
    #[must_use]
    pub fn lease_end(&self) -> Tick {
        self.lease_end
    }

    /// Where the replica that these placements are of starts.
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

    /// Bytes of memory that it takes, about.
    pub(crate) fn len_bytes(&self) -> usize {
        size_of::<Self>()
            + size_of_val(&*self.located.placements)
            + SEGMENT_BYTES * self.segments.len().min(self.located.placements.len())
    }

    /// The same route, without segments that it does not need.
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

    /// The placements of the replica to read: one of this node, else any, none that has failed.
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
            if is_own(ranges, &self.segments, own) {
                return Some(reading);
            }
            candidates += 1;
            // Each of n candidates ends up chosen with the same chance, 1/n.
            if candidates == 1 || chance.below(candidates) == 0 {
                chosen = Some(reading);
            }
        }
        chosen
    }

    /// What to read for these spans of the object from one replica.
    pub(crate) fn fetches_into(
        &self,
        position: usize,
        reading: &Range<usize>,
        spans: &[Span],
        fetches: &mut Vec<Fetch>,
    ) {
        let ranges: &[Placement] = &self.located.placements[reading.clone()];
        cut(ranges, spans, |cut| {
            let segment = &self.segments[cut.range.segment as usize];
            fetches.push(Fetch {
                position,
                endpoint: Arc::clone(&segment.endpoint),
                range: RangeRead {
                    segment: segment.id,
                    offset: cut.range.offset,
                    version: self.located.version,
                    object_offset: cut.object_offset,
                    from: cut.from,
                    len: cut.len,
                },
                at: cut.at,
                object_len: self.located.len,
            });
        });
    }
}
