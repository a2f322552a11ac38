use bytes::Bytes;
use mooncake_types::{Epoch, MountOutcome, MountSegment, SealKey, SegmentId};

use crate::{DecodeError, column, generated as proto};

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
        seal_key: mount.seal_key.map_or_else(Bytes::new, |key| key.0.to_vec().into()),
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
        seal_key: to_seal_key(&message.seal_key)?,
    })
}

fn to_seal_key(bytes: &[u8]) -> Result<Option<SealKey>, DecodeError> {
    let id = (!bytes.is_empty()).then(|| column::to_id("seal_key", bytes)).transpose()?;
    Ok(id.map(|id| SealKey(id.to_be_bytes())))
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
