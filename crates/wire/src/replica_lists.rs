//! The message `ReplicaLists`: placements of many objects, as columns.

use std::ops::Range;

use mooncake_types::limits::MAX_REPLICAS;
use mooncake_types::{ErrorCode, Placement, Seal, SegmentAddress, SegmentId, Version};

use crate::{DecodeError, column, generated as proto, status};

/// One object: its version and placements, or the error.
type Row<'a> = Result<(Version, &'a [Placement]), ErrorCode>;

/// The decoded lists: one result per object, and the segments to which their placements refer.
type Decoded<T> = (Vec<Result<T, ErrorCode>>, Vec<SegmentAddress>);

pub(crate) fn from_rows<'a>(
    rows: impl ExactSizeIterator<Item = Row<'a>>,
    segments: &[SegmentAddress],
) -> proto::ReplicaLists {
    let count = rows.len();
    let mut lists = proto::ReplicaLists {
        status_codes: Vec::with_capacity(count),
        versions: Vec::with_capacity(2 * count),
        handle_counts: Vec::with_capacity(count),
        handle_replicas: Vec::with_capacity(count),
        handle_segments: Vec::with_capacity(count),
        handle_offsets: Vec::with_capacity(count),
        handle_sizes: Vec::with_capacity(count),
        segments: segments.iter().map(from_segment).collect(),
        handle_seals: Vec::new(),
    };
    for row in rows {
        match row {
            Ok((version, placements)) => push(&mut lists, version, placements),
            Err(code) => lists.status_codes.push(status::from_error(code)),
        }
    }
    lists
}

fn push(lists: &mut proto::ReplicaLists, version: Version, placements: &[Placement]) {
    lists.status_codes.push(ErrorCode::Ok.number());
    lists.versions.extend([version.epoch.0, version.counter]);
    lists.handle_counts.push(placements.len() as u32);
    for placement in placements {
        lists.handle_replicas.push(placement.replica);
        lists.handle_segments.push(placement.segment);
        lists.handle_offsets.push(placement.offset);
        lists.handle_sizes.push(placement.len);
        push_seal(lists, placement.seal);
    }
}

/// Adds the seal of the handle that was added last. The column begins with the first handle that has one.
fn push_seal(lists: &mut proto::ReplicaLists, seal: Seal) {
    if seal != Seal::NONE || !lists.handle_seals.is_empty() {
        lists.handle_seals.resize(lists.handle_sizes.len() - 1, Seal::NONE.0);
        lists.handle_seals.push(seal.0);
    }
}

pub(crate) fn from_segment(segment: &SegmentAddress) -> proto::SegmentInfo {
    proto::SegmentInfo {
        segment_id: column::from_id(segment.id.0),
        segment_name: String::from(&*segment.name),
        endpoint: String::from(&*segment.endpoint),
        medium: column::from_medium(segment.medium),
    }
}

/// The replica lists of a reply, which are required.
pub(crate) fn required<T>(lists: Option<T>) -> Result<T, DecodeError> {
    lists.ok_or(DecodeError::Missing { what: "replica_lists" })
}

/// Decodes the columns to at most `limit` objects. `make` makes each object from its version and placements.
pub(crate) fn to_rows<T>(
    lists: &proto::ReplicaLists,
    limit: usize,
    mut make: impl FnMut(Version, Vec<Placement>) -> T,
) -> Result<Decoded<T>, DecodeError> {
    if lists.status_codes.len() > limit {
        return Err(DecodeError::TooMany { what: "status_codes", limit });
    }
    let found = found(lists);
    column::check_len("handle_counts", &lists.handle_counts, found)?;
    check_handles(lists)?;
    let versions = column::to_versions("versions", &lists.versions, found)?;
    let mut versions = versions.zip(&lists.handle_counts);
    let mut start = 0;
    let mut object = |&number: &i32| {
        status::to_result(number)?;
        let (version, &count) = versions.next().expect("one version for each status that is 0");
        let handles = start..start + count as usize;
        start = handles.end;
        Ok(make(version, to_placements(lists, handles)))
    };
    let objects = lists.status_codes.iter().map(&mut object).collect();
    let segments = lists.segments.iter().map(to_segment).collect::<Result<_, _>>()?;
    Ok((objects, segments))
}

/// The number of objects whose status is 0.
pub(crate) fn found(lists: &proto::ReplicaLists) -> usize {
    lists.status_codes.iter().filter(|&&number| number == ErrorCode::Ok.number()).count()
}

/// Refuses columns of handles whose length is not the sum of the counts. Also refuses handles that refer to no listed
/// segment, or to a replica beyond the limit.
fn check_handles(lists: &proto::ReplicaLists) -> Result<(), DecodeError> {
    let total: u64 = lists.handle_counts.iter().map(|&count| u64::from(count)).sum();
    let total = usize::try_from(total).unwrap_or(usize::MAX);
    column::check_len("handle_replicas", &lists.handle_replicas, total)?;
    column::check_len("handle_segments", &lists.handle_segments, total)?;
    column::check_len("handle_offsets", &lists.handle_offsets, total)?;
    column::check_len("handle_sizes", &lists.handle_sizes, total)?;
    column::check_seals("handle_seals", &lists.handle_seals, total)?;
    let replica = |&replica: &u32| replica < MAX_REPLICAS;
    let segment = |&segment: &u32| (segment as usize) < lists.segments.len();
    check_all("handle_replicas", &lists.handle_replicas, replica)?;
    check_all("handle_segments", &lists.handle_segments, segment)
}

pub(crate) fn check_all(
    what: &'static str,
    column: &[u32],
    holds: impl Fn(&u32) -> bool,
) -> Result<(), DecodeError> {
    match column.iter().find(|&value| !holds(value)) {
        None => Ok(()),
        Some(&value) => Err(DecodeError::OutOfRange { what, value: value.into() }),
    }
}

fn to_placements(lists: &proto::ReplicaLists, handles: Range<usize>) -> Vec<Placement> {
    let replicas = &lists.handle_replicas[handles.clone()];
    let segments = &lists.handle_segments[handles.clone()];
    let offsets = &lists.handle_offsets[handles.clone()];
    let sizes = &lists.handle_sizes[handles.clone()];
    let seals = lists.handle_seals.get(handles).unwrap_or_default();
    let seals = seals.iter().map(|&seal| Seal(seal)).chain(std::iter::repeat(Seal::NONE));
    let rows = replicas.iter().zip(segments).zip(offsets).zip(sizes).zip(seals);
    let row = |((((&replica, &segment), &offset), &len), seal)| Placement {
        replica,
        segment,
        offset,
        len,
        seal,
    };
    rows.map(row).collect()
}

pub(crate) fn to_segment(segment: &proto::SegmentInfo) -> Result<SegmentAddress, DecodeError> {
    Ok(SegmentAddress {
        id: SegmentId(column::to_id("segment_id", &segment.segment_id)?),
        name: segment.segment_name.as_str().into(),
        endpoint: segment.endpoint.as_str().into(),
        medium: column::to_medium(segment.medium)?,
    })
}
