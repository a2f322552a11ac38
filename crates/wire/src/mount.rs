//! What becomes of mounts, and what nodes are to drop.

use bytes::Bytes;
use mooncake_types::limits::MAX_FETCHED_DROPS;
use mooncake_types::{Epoch, MountOutcome, MountSegment, RangeDrop, Request, SegmentId};

use crate::drop::{self, Columns};
use crate::{DecodeError, column, generated as proto};

const MOST_DROPS: usize = MAX_FETCHED_DROPS as usize;

pub(crate) fn from_mount(mount: &MountSegment<'_>) -> proto::MountSegmentRequest {
    proto::MountSegmentRequest {
        segment_id: column::from_id(mount.id.0),
        segment_name: mount.name.to_owned(),
        endpoint: mount.endpoint.to_owned(),
        size: mount.len,
        seen_epoch: mount.seen_epoch.0,
        is_empty: mount.is_empty,
        run: mount.run,
        medium: column::from_medium(mount.medium),
        domains: mount.domains.to_vec(),
    }
}

pub(crate) fn to_mount(
    message: &proto::MountSegmentRequest,
) -> Result<MountSegment<'_>, DecodeError> {
    Ok(MountSegment {
        id: SegmentId(column::to_id("segment_id", &message.segment_id)?),
        name: &message.segment_name,
        endpoint: &message.endpoint,
        len: message.size,
        seen_epoch: Epoch(message.seen_epoch),
        is_empty: message.is_empty,
        run: message.run,
        medium: column::to_medium(message.medium)?,
        domains: &message.domains,
    })
}

pub(crate) fn from_outcome(outcome: MountOutcome) -> proto::MountSegmentResponse {
    let (outcome, changes_since) = match outcome {
        MountOutcome::Ready => (proto::MountOutcome::Ready, None),
        MountOutcome::WantsInventory => (proto::MountOutcome::WantsInventory, None),
        MountOutcome::StartEmpty => (proto::MountOutcome::StartEmpty, None),
        MountOutcome::WantsChanges { since } => (proto::MountOutcome::WantsInventory, Some(since)),
    };
    proto::MountSegmentResponse { outcome: Some(outcome.into()), changes_since }
}

pub(crate) fn to_outcome(
    message: &proto::MountSegmentResponse,
) -> Result<MountOutcome, DecodeError> {
    let what = "outcome";
    let number = message.outcome.ok_or(DecodeError::Missing { what })?;
    match proto::MountOutcome::try_from(number) {
        Ok(proto::MountOutcome::Ready) => Ok(MountOutcome::Ready),
        Ok(proto::MountOutcome::WantsInventory) => Ok(match message.changes_since {
            Some(since) => MountOutcome::WantsChanges { since },
            None => MountOutcome::WantsInventory,
        }),
        Ok(proto::MountOutcome::StartEmpty) => Ok(MountOutcome::StartEmpty),
        Err(_) => Err(DecodeError::OutOfRange { what, value: number.into() }),
    }
}

pub(crate) fn from_fetch(dropped: &[RangeDrop], limit: u32) -> proto::FetchDropsRequest {
    let proto::DropRequest { segment_ids, offsets, versions, grants } = drop::from_drops(dropped);
    proto::FetchDropsRequest { segment_ids, offsets, versions, grants, limit }
}

pub(crate) fn to_fetch(message: &proto::FetchDropsRequest) -> Result<Request<'_>, DecodeError> {
    let proto::FetchDropsRequest { segment_ids, offsets, versions, grants, limit } = message;
    let dropped = drop::to_drops(&Columns { segment_ids, offsets, versions, grants }, MOST_DROPS)?;
    Ok(Request::FetchDrops { dropped, limit: *limit })
}

pub(crate) fn from_dropped(dropped: &[RangeDrop]) -> proto::DroppedRequest {
    let proto::DropRequest { segment_ids, offsets, versions, grants } = drop::from_drops(dropped);
    proto::DroppedRequest { versions, segment_ids, offsets, grants }
}

pub(crate) fn to_dropped(message: &proto::DroppedRequest) -> Result<Request<'_>, DecodeError> {
    let proto::DroppedRequest { versions, segment_ids, offsets, grants } = message;
    let columns = Columns { segment_ids, offsets, versions, grants };
    Ok(Request::Dropped { dropped: drop::to_drops(&columns, MOST_DROPS)? })
}

pub(crate) fn from_retract(keys: &[&str], ranges: &[RangeDrop]) -> proto::RetractRequest {
    let keys = keys.iter().map(|key| Bytes::copy_from_slice(key.as_bytes())).collect();
    proto::RetractRequest { keys, ranges: Some(drop::from_drops(ranges)) }
}

/// The ranges that a message names beside its keys.
pub(crate) fn to_retract(message: &proto::RetractRequest) -> Result<Vec<RangeDrop>, DecodeError> {
    let ranges = message.ranges.as_ref().ok_or(DecodeError::Missing { what: "ranges" })?;
    drop::to_drops(&Columns::of(ranges), MOST_DROPS)
}

pub(crate) fn from_fetched(drops: &[RangeDrop]) -> proto::FetchDropsResponse {
    let proto::DropRequest { segment_ids, offsets, versions, grants } = drop::from_drops(drops);
    proto::FetchDropsResponse { segment_ids, offsets, versions, grants }
}

pub(crate) fn to_fetched(
    message: &proto::FetchDropsResponse,
) -> Result<Vec<RangeDrop>, DecodeError> {
    let proto::FetchDropsResponse { segment_ids, offsets, versions, grants } = message;
    drop::to_drops(&Columns { segment_ids, offsets, versions, grants }, MOST_DROPS)
}
