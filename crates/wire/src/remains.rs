//! The messages `Remains` and `Predecessors`: ranges that nodes must drop, as columns.

use mooncake_types::limits::MAX_PREDECESSORS;
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
        seals: column::from_seals(ranges.iter().map(|range| range.seal)),
    }
}

pub(crate) fn to_remains(message: &proto::Remains) -> Result<Remains, DecodeError> {
    let proto::Remains { range_segments, range_offsets, versions, grants, seals, .. } = message;
    let columns = RangeColumns { range_segments, range_offsets, versions, grants, seals };
    let ranges = to_ranges(&columns, message.segments.len())?.collect();
    let segments = message.segments.iter().map(to_segment).collect::<Result<_, _>>()?;
    Ok(Remains { ranges, segments, lease_ms: message.lease_ttl_ms })
}

pub(crate) fn from_predecessors(ranges: &[(u32, RemainingRange)]) -> proto::Predecessors {
    proto::Predecessors {
        keys: ranges.iter().map(|(key, _)| *key).collect(),
        range_segments: ranges.iter().map(|(_, range)| range.segment).collect(),
        range_offsets: ranges.iter().map(|(_, range)| range.offset).collect(),
        versions: column::from_versions(ranges.iter().map(|(_, range)| range.version)),
        grants: column::from_versions(ranges.iter().map(|(_, range)| range.grant)),
        seals: column::from_seals(ranges.iter().map(|(_, range)| range.seal)),
    }
}

/// Decodes the ranges in a reply about this many keys that lists this many segments.
pub(crate) fn to_predecessors(
    message: &proto::Predecessors,
    (keys, segments): (usize, usize),
) -> Result<Vec<(u32, RemainingRange)>, DecodeError> {
    let proto::Predecessors { range_segments, range_offsets, versions, grants, seals, .. } =
        message;
    if range_offsets.len() > MAX_PREDECESSORS {
        return Err(DecodeError::TooMany { what: "range_offsets", limit: MAX_PREDECESSORS });
    }
    column::check_len("keys", &message.keys, range_offsets.len())?;
    check_all("keys", &message.keys, |&key: &u32| (key as usize) < keys)?;
    let columns = RangeColumns { range_segments, range_offsets, versions, grants, seals };
    let ranges = to_ranges(&columns, segments)?;
    Ok(message.keys.iter().copied().zip(ranges).collect())
}

/// Ranges as columns.
struct RangeColumns<'a> {
    range_segments: &'a [u32],
    range_offsets: &'a [u64],
    versions: &'a [u64],
    grants: &'a [u64],
    seals: &'a [u64],
}

/// Decodes the ranges of a message that lists `count` segments.
fn to_ranges<'a>(
    columns: &RangeColumns<'a>,
    count: usize,
) -> Result<impl Iterator<Item = RemainingRange> + use<'a>, DecodeError> {
    let RangeColumns { range_segments: segments, range_offsets: offsets, versions, grants, seals } =
        *columns;
    column::check_len("range_segments", segments, offsets.len())?;
    let versions = column::to_versions("versions", versions, offsets.len())?;
    let grants = column::to_versions("grants", grants, offsets.len())?;
    let seals = column::to_seals("seals", seals, offsets.len())?;
    check_all("range_segments", segments, |&segment: &u32| (segment as usize) < count)?;
    let range = |((&segment, &offset), ((version, grant), seal))| RemainingRange {
        segment,
        offset,
        version,
        grant,
        seal,
    };
    Ok(segments.iter().zip(offsets).zip(versions.zip(grants).zip(seals)).map(range))
}
