//! One move of a transfer: its bytes, and the node it goes to.

use mooncake_ops::{RangeToRead, RangeToWrite};
use mooncake_types::{Epoch, NodeDrop, SegmentId};

use crate::extents::{Content, Extents, Piece};
use crate::ids::Site;
use crate::key::number_of;

/// A read, a write or a drop of one range.
pub(crate) enum MoveKind {
    Read { fetch: RangeToRead, pieces: Vec<Piece> },
    Write { epoch: Epoch, deposit: RangeToWrite<'static>, payload: Vec<Piece> },
    Drop(NodeDrop),
}

impl MoveKind {
    pub(crate) fn segment(&self) -> SegmentId {
        match self {
            Self::Read { fetch, .. } => fetch.range.segment,
            Self::Write { deposit, .. } => deposit.range.segment,
            Self::Drop(discard) => discard.range.segment,
        }
    }

    /// The site that serves the range, as its endpoint says.
    pub(crate) fn peer(&self) -> Site {
        let endpoint = match self {
            Self::Read { fetch, .. } => &fetch.endpoint,
            Self::Write { deposit, .. } => &deposit.endpoint,
            Self::Drop(discard) => &discard.endpoint,
        };
        let number = endpoint.strip_prefix("host:").and_then(|number| number.parse().ok());
        Site::Member(number.expect("an endpoint of this run"))
    }
}

/// The bytes to write: those that were read into the item's buffer before, or else the object's own.
pub(crate) fn payload(deposit: &RangeToWrite<'_>, buffers: &[Extents]) -> Vec<Piece> {
    let (range, buffer) = (&deposit.range, &buffers[deposit.position]);
    if !buffer.is_empty() {
        return buffer.read(deposit.at, range.len);
    }
    let (key, version, grant) = (number_of(range.key), range.version, range.grant);
    let content = Content { key, version, at: range.object_offset + range.from, grant };
    vec![Piece { len: range.len, content: Some(content) }]
}

pub(crate) fn part_of(pieces: &[Piece], from: u64, len: u64) -> Vec<Piece> {
    let mut whole = Extents::default();
    whole.write(0, pieces);
    whole.read(from, len)
}
