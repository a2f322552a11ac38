use std::sync::Arc;

use mooncake_types::{
    Discard, Epoch, ErrorCode, Grant, Placement, PutEnd, PutRevoke, RangeDrop, RangeWrite,
    SegmentAddress, SegmentId, Version,
};

use crate::op::{Attributes, Deposit, MoveError};
use crate::placements::{placements_are_whole, replicas};
use crate::span::{Cut, Span, cut};

/// The ranges that the replicas of one object may be written to, and which of these failed.
///
/// A replica that failed is out for good: what of the write is still on its way to a slow node could land on top of a
/// second one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Granted {
    /// The version of the object.
    pub(super) version: Version,
    /// What its writes are ordered by; the version itself, unless further replicas are made.
    grant: Version,
    pub(super) object_len: u64,
    placements: Vec<Placement>,
    segments: Arc<[SegmentAddress]>,
    /// What the nodes are to keep with it.
    attributes: Attributes,
    pub(crate) failed: FailedReplicas,
}

/// Which replicas were not written: bit `i` stands for replica `i`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FailedReplicas {
    pub(crate) all: u32,
    /// Replicas whose node refused because another user still holds the range (`ObjectReplicaBusy`).
    pub(super) held: u32,
    /// Replicas whose node refused because it knows a newer version (`InvalidVersion`).
    pub(super) outdated: u32,
}

impl Granted {
    /// What the master granted for an object of `object_len` bytes, to be written under `order`, as a rule the version
    /// itself; nothing if that makes no sense.
    pub(crate) fn new(
        grant: Grant,
        order: Version,
        object_len: u64,
        segments: &Arc<[SegmentAddress]>,
    ) -> Option<Self> {
        let Grant { version, placements, attributes } = grant;
        // All else relies on whole replicas.
        let makes_sense = placements_are_whole(&placements, segments, object_len);
        makes_sense.then(|| Self {
            version,
            grant: order,
            object_len,
            placements,
            segments: Arc::clone(segments),
            attributes: Attributes::new(attributes),
            failed: FailedReplicas::default(),
        })
    }

    /// The epoch that it is of.
    pub(super) const fn epoch(&self) -> Epoch {
        self.grant.epoch
    }

    /// Whether no replica is left.
    pub(super) fn has_failed_everywhere(&self) -> bool {
        let all = self.placements.iter().fold(0, |bits, range| bits | 1 << range.replica);
        self.failed.all == all
    }

    /// Takes over what failed in a write of the same put.
    pub(super) const fn learn_failures(&mut self, written: &Self) {
        self.failed.all |= written.failed.all;
        self.failed.held |= written.failed.held;
        self.failed.outdated |= written.failed.outdated;
    }

    /// What publishes the object.
    pub(super) const fn ending<'a>(&self, key: &'a str) -> PutEnd<'a> {
        PutEnd {
            key,
            version: self.version,
            failed_replicas: self.failed.all,
            held_replicas: self.failed.held,
        }
    }

    /// What gives the put up.
    pub(super) const fn revocation<'a>(&self, key: &'a str) -> PutRevoke<'a> {
        PutRevoke { key, version: self.version, held_replicas: self.failed.held }
    }

    /// What nodes may hold of the replicas that did not fail.
    pub(super) fn discards_into(&self, discards: &mut Vec<Discard>) {
        let wanted =
            self.placements.iter().filter(|range| self.failed.all & 1 << range.replica == 0);
        discards.extend(wanted.map(|range| {
            let segment = &self.segments[range.segment as usize];
            let (offset, version) = (range.offset, self.version);
            let range = RangeDrop { segment: segment.id, offset, version, grant: version };
            Discard { endpoint: Arc::clone(&segment.endpoint), range }
        }));
    }

    /// What to write of these spans, to every replica that did not fail.
    pub(super) fn deposits_into<'a>(
        &self,
        (position, key): (usize, &'a str),
        spans: &[Span],
        deposits: &mut Vec<Deposit<'a>>,
    ) {
        self.each_cut(spans, |cut| {
            let segment = &self.segments[cut.range.segment as usize];
            deposits.push(Deposit {
                position,
                endpoint: Arc::clone(&segment.endpoint),
                range: RangeWrite {
                    segment: segment.id,
                    offset: cut.range.offset,
                    entry_len: cut.range.len,
                    from: cut.from,
                    len: cut.len,
                    key,
                    version: self.version,
                    grant: self.grant,
                    object_len: self.object_len,
                    object_offset: cut.object_offset,
                    attributes: &[],
                },
                at: cut.at,
                attributes: self.attributes.clone(),
            });
        });
    }

    /// Takes the results of [`Granted::deposits_into`] with the same spans. Adds the segments that could not be written at
    /// all to `unreachable`; not those that refused this one grant.
    pub(super) fn on_written(
        &mut self,
        spans: &[Span],
        results: &mut impl Iterator<Item = Result<(), MoveError>>,
        unreachable: &mut Vec<SegmentId>,
    ) -> Option<ErrorCode> {
        let (mut failed, mut refusal) = (self.failed, None);
        self.each_cut(spans, |cut| {
            let Err(error) = results.next().expect("one result per range") else { return };
            let replica = 1 << cut.range.replica;
            failed.all |= replica;
            match error {
                MoveError::Refused(ErrorCode::ObjectReplicaBusy) => failed.held |= replica,
                MoveError::Refused(ErrorCode::InvalidVersion) => failed.outdated |= replica,
                // A node that has not met the leader after all these attempts is out of its reach.
                MoveError::Broken | MoveError::Refused(ErrorCode::UNKNOWN_LEADER) => {
                    unreachable.push(self.segments[cut.range.segment as usize].id);
                }
                MoveError::Stale | MoveError::Refused(_) => {}
            }
            if let MoveError::Refused(code) = error
                && code != ErrorCode::Ok
            {
                refusal.get_or_insert(code);
            }
        });
        self.failed = failed;
        refusal
    }

    /// Names what of these spans lies in which range, for every replica that did not fail.
    pub(super) fn each_cut(&self, spans: &[Span], mut each: impl FnMut(Cut<'_>)) {
        for ranges in replicas(&self.placements) {
            if self.failed.all & (1 << ranges[0].replica) == 0 {
                cut(ranges, spans, &mut each);
            }
        }
    }
}
