//! The message `Remains`: what nodes are to drop, as columns.

use mooncake_types::{RemainingRange, Remains};

use crate::replica_lists::{check_all, from_segment, to_segment};
use crate::{DecodeError, column, generated as proto};

pub(crate) fn from_remains(remains: &Remains) -> proto::Remains {
    let ranges = &remains.ranges;
    proto::Remains {
        range_segments: ranges.iter().map(|range| range.segment).collect(),
        range_offsets: ranges.iter().map(|range| range.offset).collect(),
        versions: column::from_versions(ranges.iter().map(|range| range.version)),
        grants: column::from_versions(ranges.iter().map(|range| range.grant)),
        segments: remains.segments.iter().map(from_segment).collect(),
        lease_ttl_ms: remains.lease_ms,
    }
}

pub(crate) fn to_remains(message: &proto::Remains) -> Result<Remains, DecodeError> {
    let count = message.range_offsets.len();
    column::check_len("range_segments", &message.range_segments, count)?;
    let versions = column::to_versions("versions", &message.versions, count)?;
    let grants = column::to_versions("grants", &message.grants, count)?;
    let known = |&segment: &u32| (segment as usize) < message.segments.len();
    check_all("range_segments", &message.range_segments, known)?;
    let places = message.range_segments.iter().zip(&message.range_offsets);
    let range = |((&segment, &offset), (version, grant))| RemainingRange {
        segment,
        offset,
        version,
        grant,
    };
    let ranges = places.zip(versions.zip(grants)).map(range).collect();
    let segments = message.segments.iter().map(to_segment).collect::<Result<_, _>>()?;
    Ok(Remains { ranges, segments, lease_ms: message.lease_ttl_ms })
}
