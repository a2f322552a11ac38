//! Lists of entries to drop, in every message that carries one.

use bytes::Bytes;
use mooncake_types::limits::{MAX_FETCHED_DROPS, MAX_FRAME_RANGES};
use mooncake_types::{RangeDrop, Request, Seal};
use prost::Message;

use crate::{DecodeError, Kind, column, frame, generated as proto};

const MOST_DROPS: usize = MAX_FETCHED_DROPS as usize;

/// Appends a [`Kind::Drop`] frame.
///
/// # Panics
/// If the body is longer than [`mooncake_types::limits::MAX_FRAME_BODY_BYTES`]. Up to [`MAX_FRAME_RANGES`] ranges fit.
pub fn encode_drop(out: &mut Vec<u8>, request_id: u64, ranges: &[(RangeDrop, Seal)]) {
    let seals = column::from_seals(ranges.iter().map(|(_, seal)| *seal));
    let message = from_drops(ranges.iter().map(|(range, _)| range));
    frame::append(out, Kind::Drop, request_id, &proto::DropRequest { seals, ..message });
}

/// Decodes the body of a [`Kind::Drop`] frame, each entry with its seal. The node must check that the ranges lie in their segments.
///
/// # Errors
/// If the body is not a message of this kind, a column has the wrong length, or the body names more than
/// [`MAX_FRAME_RANGES`] ranges.
pub fn decode_drop(body: &[u8]) -> Result<Vec<(RangeDrop, Seal)>, DecodeError> {
    let message = proto::DropRequest::decode(body)?;
    let ranges = to_drops(&Columns::of(&message), MAX_FRAME_RANGES)?;
    let seals = column::to_seals("seals", &message.seals, ranges.len())?;
    Ok(ranges.into_iter().zip(seals).collect())
}

/// A list of entries as columns.
pub(crate) struct Columns<'a> {
    pub(crate) segment_ids: &'a [u8],
    pub(crate) offsets: &'a [u64],
    pub(crate) versions: &'a [u64],
    pub(crate) grants: &'a [u64],
}

impl<'a> Columns<'a> {
    pub(crate) fn of(message: &'a proto::DropRequest) -> Self {
        let proto::DropRequest { segment_ids, offsets, versions, grants, .. } = message;
        Self { segment_ids, offsets, versions, grants }
    }
}

/// Encodes a list of entries as the message of a [`Kind::Drop`] frame, without seals.
fn from_drops<'a>(
    ranges: impl ExactSizeIterator<Item = &'a RangeDrop> + Clone,
) -> proto::DropRequest {
    proto::DropRequest {
        segment_ids: column::from_segments(ranges.clone().map(|range| range.segment)),
        offsets: ranges.clone().map(|range| range.offset).collect(),
        versions: column::from_versions(ranges.clone().map(|range| range.version)),
        grants: column::from_versions(ranges.map(|range| range.grant)),
        seals: Vec::new(),
    }
}

/// Decodes columns to at most `limit` entries.
pub(crate) fn to_drops(columns: &Columns<'_>, limit: usize) -> Result<Vec<RangeDrop>, DecodeError> {
    let count = columns.offsets.len();
    if count > limit {
        return Err(DecodeError::TooMany { what: "offsets", limit });
    }
    let segments = column::to_segments("segment_ids", columns.segment_ids, count)?;
    let versions = column::to_versions("versions", columns.versions, count)?;
    let grants = column::to_versions("grants", columns.grants, count)?;
    let rows = segments.zip(columns.offsets).zip(versions.zip(grants));
    let range =
        |((segment, &offset), (version, grant))| RangeDrop { segment, offset, version, grant };
    Ok(rows.map(range).collect())
}

pub(crate) fn from_fetch(dropped: &[RangeDrop], limit: u32) -> proto::FetchDropsRequest {
    let proto::DropRequest { segment_ids, offsets, versions, grants, .. } =
        from_drops(dropped.iter());
    proto::FetchDropsRequest { segment_ids, offsets, versions, grants, limit }
}

pub(crate) fn to_fetch(message: &proto::FetchDropsRequest) -> Result<Request<'_>, DecodeError> {
    let proto::FetchDropsRequest { segment_ids, offsets, versions, grants, limit } = message;
    let dropped = to_drops(&Columns { segment_ids, offsets, versions, grants }, MOST_DROPS)?;
    Ok(Request::FetchDrops { dropped, limit: *limit })
}

pub(crate) fn from_dropped(dropped: &[RangeDrop]) -> proto::DroppedRequest {
    let proto::DropRequest { segment_ids, offsets, versions, grants, .. } =
        from_drops(dropped.iter());
    proto::DroppedRequest { versions, segment_ids, offsets, grants }
}

pub(crate) fn to_dropped(message: &proto::DroppedRequest) -> Result<Request<'_>, DecodeError> {
    let proto::DroppedRequest { versions, segment_ids, offsets, grants } = message;
    let columns = Columns { segment_ids, offsets, versions, grants };
    Ok(Request::Dropped { dropped: to_drops(&columns, MOST_DROPS)? })
}

pub(crate) fn from_retract(keys: &[&str], ranges: &[RangeDrop]) -> proto::RetractRequest {
    let keys = keys.iter().map(|key| Bytes::copy_from_slice(key.as_bytes())).collect();
    proto::RetractRequest { keys, ranges: Some(from_drops(ranges.iter())) }
}

/// Decodes the ranges of a message; the caller decodes its keys.
pub(crate) fn to_retract(message: &proto::RetractRequest) -> Result<Vec<RangeDrop>, DecodeError> {
    let ranges = message.ranges.as_ref().ok_or(DecodeError::Missing { what: "ranges" })?;
    to_drops(&Columns::of(ranges), MOST_DROPS)
}

pub(crate) fn from_losses(keys: &[&str], ranges: &[RangeDrop]) -> proto::ReportLossesRequest {
    let keys = keys.iter().map(|key| Bytes::copy_from_slice(key.as_bytes())).collect();
    proto::ReportLossesRequest { keys, ranges: Some(from_drops(ranges.iter())) }
}

/// Decodes the ranges of a message, one for each key; the caller decodes its keys.
pub(crate) fn to_losses(
    message: &proto::ReportLossesRequest,
) -> Result<Vec<RangeDrop>, DecodeError> {
    let ranges = message.ranges.as_ref().ok_or(DecodeError::Missing { what: "ranges" })?;
    let ranges = to_drops(&Columns::of(ranges), message.keys.len())?;
    if ranges.len() != message.keys.len() {
        return Err(DecodeError::Missing { what: "ranges" });
    }
    Ok(ranges)
}

pub(crate) fn from_fetched(drops: &[RangeDrop]) -> proto::FetchDropsResponse {
    let proto::DropRequest { segment_ids, offsets, versions, grants, .. } =
        from_drops(drops.iter());
    proto::FetchDropsResponse { segment_ids, offsets, versions, grants }
}

pub(crate) fn to_fetched(
    message: &proto::FetchDropsResponse,
) -> Result<Vec<RangeDrop>, DecodeError> {
    let proto::FetchDropsResponse { segment_ids, offsets, versions, grants } = message;
    to_drops(&Columns { segment_ids, offsets, versions, grants }, MOST_DROPS)
}
