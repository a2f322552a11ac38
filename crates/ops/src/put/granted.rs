use std::sync::Arc;

use mooncake_types::{
    Epoch, ErrorCode, Grant, NodeDrop, Placement, PutEnd, PutRevoke, RangeDrop, RangeWrite, Seal,
    SegmentAddress, SegmentId, Version,
};

use crate::location::ReplicaLocation;
use crate::op::{Attributes, MoveError, RangeToWrite};
use crate::placements::{placements_are_whole, replicas};
use crate::span::{Cut, Span, cut};

/// The granted ranges of one object's replicas, and which replicas failed.
///
/// A failed replica is not written again: bytes of the first write may still be on their way to a slow node, and
/// could overwrite those of the second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Granted {
    /// The version of the object.
    pub(super) version: Version,
    /// The version that orders its writes: the object's own, unless they add replicas.
    grant: Version,
    pub(super) object_len: u64,
    placements: Vec<Placement>,
    /// See [`Grant::drop_seals`].
    drop_seals: Vec<Seal>,
    segments: Arc<[SegmentAddress]>,
    /// Attributes that the nodes keep with it.
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
    /// The grant of an object of `object_len` bytes, written under `order`, usually the object's version. `None` if
    /// the placements are not whole replicas.
    pub(crate) fn new(
        grant: Grant,
        order: Version,
        object_len: u64,
        segments: &Arc<[SegmentAddress]>,
    ) -> Option<Self> {
        let Grant { version, placements, attributes, drop_seals } = grant;
        // All else relies on whole replicas.
        let makes_sense = placements_are_whole(&placements, segments, object_len);
        makes_sense.then(|| Self {
            version,
            grant: order,
            object_len,
            placements,
            drop_seals,
            segments: Arc::clone(segments),
            attributes: Attributes::new(attributes),
            failed: FailedReplicas::default(),
        })
    }

    /// The ranges of each replica.
    pub(super) fn replicas(&self) -> Vec<ReplicaLocation> {
        ReplicaLocation::all(&self.placements, &self.segments)
    }

    /// The epoch of the grant.
    pub(super) const fn epoch(&self) -> Epoch {
        self.grant.epoch
    }

    /// Whether all replicas failed.
    pub(super) fn has_failed_everywhere(&self) -> bool {
        let all = self.placements.iter().fold(0, |bits, range| bits | 1 << range.replica);
        self.failed.all == all
    }

    /// Adds the failures of a write of the same put.
    pub(super) const fn learn_failures(&mut self, written: &Self) {
        self.failed.all |= written.failed.all;
        self.failed.held |= written.failed.held;
        self.failed.outdated |= written.failed.outdated;
    }

    /// The request that publishes the object.
    pub(super) const fn ending<'a>(&self, key: &'a str) -> PutEnd<'a> {
        PutEnd {
            key,
            version: self.version,
            failed_replicas: self.failed.all,
            held_replicas: self.failed.held,
        }
    }

    /// The request that gives the put up.
    pub(super) const fn revocation<'a>(&self, key: &'a str) -> PutRevoke<'a> {
        PutRevoke { key, version: self.version, held_replicas: self.failed.held }
    }

    /// Adds the drops of all replicas that did not fail.
    pub(super) fn discards_into(&self, discards: &mut Vec<NodeDrop>) {
        let seals = self.drop_seals.iter().copied().chain(std::iter::repeat(Seal::NONE));
        let sealed = self.placements.iter().zip(seals);
        let wanted = sealed.filter(|(range, _)| self.failed.all & 1 << range.replica == 0);
        discards.extend(wanted.map(|(range, seal)| {
            let segment = &self.segments[range.segment as usize];
            let (offset, version) = (range.offset, self.version);
            let range = RangeDrop { segment: segment.id, offset, version, grant: version };
            NodeDrop { endpoint: Arc::clone(&segment.endpoint), range, seal }
        }));
    }

    /// Adds the writes of these spans to every replica that did not fail.
    pub(super) fn deposits_into<'a>(
        &self,
        (position, key): (usize, &'a str),
        spans: &[Span],
        deposits: &mut Vec<RangeToWrite<'a>>,
    ) {
        self.each_cut(spans, |cut| {
            let segment = &self.segments[cut.range.segment as usize];
            deposits.push(RangeToWrite {
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
                    seal: cut.range.seal,
                },
                at: cut.at,
                attributes: self.attributes.clone(),
            });
        });
    }

    /// Takes the results of [`Granted::deposits_into`] with the same spans, and returns the first refusal. Adds
    /// segments that could not be written at all to `unreachable`, but not those that refused this one grant.
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
                // A node that does not know the leader after all retries is out of the leader's reach. One that does not
                // know its seals has just been started again.
                MoveError::Broken
                | MoveError::Refused(ErrorCode::UNKNOWN_LEADER | ErrorCode::PermissionDenied) => {
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

    /// Calls `each` with the parts of these spans by range, for every replica that did not fail.
    pub(super) fn each_cut(&self, spans: &[Span], mut each: impl FnMut(Cut<'_>)) {
        for ranges in replicas(&self.placements) {
            if self.failed.all & (1 << ranges[0].replica) == 0 {
                cut(ranges, spans, &mut each);
            }
        }
    }
}
