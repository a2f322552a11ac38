use bytes::Bytes;
use mooncake_types::limits::MAX_SEGMENTS;
use mooncake_types::{
    Epoch, KeyVersion, MountSegment, PutEnd, PutItem, PutStart, ReplicateConfig, Request, Scan,
    ScanAction, SegmentId, SoftPin,
};
use prost::Message;

use crate::generated::request::Operation;
use crate::{DecodeError, column, generated as proto, shape};

/// The body of a [`crate::Kind::Request`] frame. It owns the bytes that its [`Request`] borrows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestMessage {
    operation: Operation,
}

/// The body of a [`crate::Kind::Request`] frame. Keys are not copied; they keep the frame alive.
///
/// # Errors
/// If the body is no such message, or a list in it is longer than its limit. Keys that are empty or too long are not
/// refused here: the master answers for each.
pub fn decode_request(body: Bytes) -> Result<RequestMessage, DecodeError> {
    shape::check(&body, shape::REQUEST)?;
    let operation = proto::Request::decode(body)?.operation;
    Ok(RequestMessage { operation: operation.ok_or(DecodeError::Missing { what: "operation" })? })
}

impl RequestMessage {
    /// The request.
    ///
    /// # Errors
    /// If a key is not UTF-8, a column has not as many elements as there are keys, or a number means nothing.
    pub fn request(&self) -> Result<Request<'_>, DecodeError> {
        Ok(match &self.operation {
            Operation::Ping(ping) => Request::Ping { segments: segments(&ping.segment_ids)? },
            Operation::MountSegment(mount) => Request::MountSegment(mount_segment(mount)?),
            Operation::UnmountSegment(unmount) => Request::UnmountSegment {
                id: SegmentId(column::to_id("segment_id", &unmount.segment_id)?),
                grace_ms: unmount.grace_period_ms,
            },
            Operation::PutStart(start) => Request::PutStart(put_start(start)?),
            Operation::PutEnd(end) => Request::PutEnd { puts: put_end(end)? },
            Operation::PutRevoke(revoke) => Request::PutRevoke { puts: put_revoke(revoke)? },
            Operation::GetReplicaList(get) => Request::GetReplicaList { keys: keys(&get.keys)? },
            Operation::ExistKey(exist) => Request::ExistKey { keys: keys(&exist.keys)? },
            Operation::Remove(remove) => {
                Request::Remove { keys: keys(&remove.keys)?, force: remove.force }
            }
            Operation::Scan(page) => Request::Scan(scan(page)?),
        })
    }
}

fn keys(keys: &[Bytes]) -> Result<Vec<&str>, DecodeError> {
    keys.iter().enumerate().map(column::to_key).collect()
}

fn segments(ids: &[u8]) -> Result<Vec<SegmentId>, DecodeError> {
    column::to_segment_list("segment_ids", ids, MAX_SEGMENTS)
}

fn mount_segment(mount: &proto::MountSegmentRequest) -> Result<MountSegment<'_>, DecodeError> {
    Ok(MountSegment {
        id: SegmentId(column::to_id("segment_id", &mount.segment_id)?),
        name: &mount.segment_name,
        endpoint: &mount.endpoint,
        len: mount.size,
        seen_epoch: Epoch(mount.seen_epoch),
    })
}

fn put_start(start: &proto::PutStartRequest) -> Result<PutStart<'_>, DecodeError> {
    column::check_len("value_lengths", &start.value_lengths, start.keys.len())?;
    let put = |(key, &len)| Ok(PutItem { key: column::to_key(key)?, len });
    let puts = start.keys.iter().enumerate().zip(&start.value_lengths).map(put);
    let config = start.config.as_ref().ok_or(DecodeError::Missing { what: "config" })?;
    Ok(PutStart {
        puts: puts.collect::<Result<_, DecodeError>>()?,
        config: replicate_config(config)?,
    })
}

fn replicate_config(config: &proto::ReplicateConfig) -> Result<ReplicateConfig<'_>, DecodeError> {
    let out_of_range = |what, value: i64| DecodeError::OutOfRange { what, value };
    let soft_pin = match proto::SoftPinAction::try_from(config.soft_pin_action) {
        Ok(proto::SoftPinAction::Preserve) => SoftPin::Preserve,
        Ok(proto::SoftPinAction::Enable) => SoftPin::Enable { ttl_ms: config.soft_pin_ttl_ms },
        Ok(proto::SoftPinAction::Disable) => SoftPin::Disable,
        Ok(proto::SoftPinAction::Sliding) => SoftPin::Sliding,
        Err(_) => return Err(out_of_range("soft_pin_action", config.soft_pin_action.into())),
    };
    let data_type = u8::try_from(config.data_type)
        .map_err(|_| out_of_range("data_type", config.data_type.into()))?;
    Ok(ReplicateConfig {
        replica_num: config.replica_num,
        soft_pin,
        hard_pin: config.with_hard_pin,
        preferred_segments: config.preferred_segments.iter().map(String::as_str).collect(),
        excluded_segments: segments(&config.excluded_segment_ids)?,
        data_type,
    })
}

fn put_end(end: &proto::PutEndRequest) -> Result<Vec<PutEnd<'_>>, DecodeError> {
    let count = end.keys.len();
    let versions = column::to_versions("versions", &end.versions, count)?;
    column::check_len("failed_replicas", &end.failed_replicas, count)?;
    let rows = end.keys.iter().enumerate().zip(versions).zip(&end.failed_replicas);
    rows.map(|((key, version), &failed_replicas)| {
        Ok(PutEnd { key: column::to_key(key)?, version, failed_replicas })
    })
    .collect()
}

fn put_revoke(revoke: &proto::PutRevokeRequest) -> Result<Vec<KeyVersion<'_>>, DecodeError> {
    let versions = column::to_versions("versions", &revoke.versions, revoke.keys.len())?;
    let rows = revoke.keys.iter().enumerate().zip(versions);
    rows.map(|(key, version)| Ok(KeyVersion { key: column::to_key(key)?, version })).collect()
}

fn scan(page: &proto::ScanRequest) -> Result<Scan<'_>, DecodeError> {
    let action = match proto::ScanAction::try_from(page.action) {
        Ok(proto::ScanAction::List) => ScanAction::List,
        Ok(proto::ScanAction::Remove) => ScanAction::Remove { force: false },
        Ok(proto::ScanAction::RemoveForced) => ScanAction::Remove { force: true },
        Ok(proto::ScanAction::Unspecified) | Err(_) => {
            return Err(DecodeError::OutOfRange { what: "action", value: page.action.into() });
        }
    };
    let pattern = page.key_regex.as_deref();
    Ok(Scan { pattern, action, cursor: page.cursor, limit: page.limit })
}
