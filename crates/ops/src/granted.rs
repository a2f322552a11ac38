use std::sync::Arc;

use mooncake_types::{
    ErrorCode, Grant, Placement, RangeDrop, RangeWrite, SegmentAddress, SegmentId, Version,
};

use super::placements::{placements_are_whole, replicas};
use super::span::{Cut, Span, cut};
use super::{Deposit, Discard, MoveError};

/// The ranges that the replicas of one object may be written to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Granted {
    /// The version of the object.
    pub(super) version: Version,
    /// What its writes are ordered by; the version itself, unless further replicas are made.
    pub(super) grant: Version,
    /// Length of the object in bytes.
    pub(super) object_len: u64,
    pub(super) placements: Vec<Placement>,
    pub(super) segments: Arc<[SegmentAddress]>,
    /// What the nodes are to keep with it.
    pub(super) attributes: Attributes,
}

/// Which replicas were not written, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Failed {
    pub(super) all: u32,
    /// Those whose ranges somebody does not let go of.
    pub(super) held: u32,
    /// Those whose nodes have been told of a newer version.
    pub(super) outdated: u32,
}

/// Opaque bytes of the master that go with every write of an object, nearly always none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes(Option<Arc<[u8]>>);

impl Attributes {
    /// As the master gave them.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        Self((!bytes.is_empty()).then(|| bytes.into()))
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl Granted {
    /// What a put of `object_len` bytes was granted.
    pub(super) fn of_put(grant: Grant, object_len: u64, segments: &Arc<[SegmentAddress]>) -> Self {
        let Grant { version, placements, attributes } = grant;
        Self {
            version,
            grant: version,
            object_len,
            placements,
            segments: Arc::clone(segments),
            attributes: Attributes::new(attributes),
        }
    }

    /// Whether every replica is whole; nothing else may be asked of one that is not.
    pub(super) fn makes_sense(&self) -> bool {
        placements_are_whole(&self.placements, &self.segments, self.object_len)
    }

    /// Bit `i` is set if there is a replica `i`.
    pub(super) fn replica_bits(&self) -> u32 {
        self.placements.iter().fold(0, |bits, range| bits | 1 << range.replica)
    }

    /// What to write of these spans, to every replica that `without` does not name.
    pub(super) fn deposits_into<'a>(
        &self,
        (position, key): (usize, &'a str),
        spans: &[Span],
        without: u32,
        deposits: &mut Vec<Deposit<'a>>,
    ) {
        self.each_cut(spans, without, |cut| {
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

    /// The replicas that were not written, given the results of [`Granted::deposits_into`] with the same spans and
    /// replicas. Adds the segments that could not be written at all to `unreachable`; not those that refused this one
    /// grant.
    pub(super) fn failed_replicas(
        &self,
        spans: &[Span],
        without: u32,
        results: &[Result<(), MoveError>],
        unreachable: &mut Vec<SegmentId>,
    ) -> Failed {
        let mut results = results.iter();
        let mut failed = Failed::default();
        self.each_cut(spans, without, |cut| {
            let replica = 1 << cut.range.replica;
            match results.next().expect("one result per range") {
                Ok(()) => return,
                Err(MoveError::Refused(ErrorCode::ObjectReplicaBusy)) => failed.held |= replica,
                Err(MoveError::Refused(ErrorCode::InvalidVersion)) => failed.outdated |= replica,
                // One that does not hear of the leader for so long is not in touch with it.
                Err(MoveError::Broken | MoveError::Refused(ErrorCode::UNKNOWN_LEADER)) => {
                    unreachable.push(self.segments[cut.range.segment as usize].id);
                }
                Err(_) => {}
            }
            failed.all |= replica;
        });
        assert!(results.next().is_none(), "one range per result");
        failed
    }

    /// What nodes may hold of the replicas that `without` does not name.
    pub(super) fn discards_into(&self, without: u32, discards: &mut Vec<Discard>) {
        let wanted = self.placements.iter().filter(|range| without & 1 << range.replica == 0);
        discards.extend(wanted.map(|range| {
            let segment = &self.segments[range.segment as usize];
            let (offset, version) = (range.offset, self.version);
            let range = RangeDrop { segment: segment.id, offset, version, grant: version };
            Discard { endpoint: Arc::clone(&segment.endpoint), range }
        }));
    }

    /// Names what of these spans lies in which range, for every replica that `without` does not name.
    pub(super) fn each_cut(&self, spans: &[Span], without: u32, mut each: impl FnMut(Cut<'_>)) {
        for ranges in replicas(&self.placements) {
            if without & (1 << ranges[0].replica) == 0 {
                cut(ranges, spans, &mut each);
            }
        }
    }
}
