//! Placement, pins, mode and groups of a put: the parts that requests to the master and to a host process share.

use bytes::Bytes;
use mooncake_types::limits::MAX_SEGMENTS;
use mooncake_types::{PutMode, ReplicateConfig, SoftPin};

use crate::{DecodeError, column, generated as proto};

pub(crate) fn from_config(config: &ReplicateConfig<'_>) -> proto::ReplicateConfig {
    let (action, ttl_ms) = match config.soft_pin {
        SoftPin::Preserve => (proto::SoftPinAction::Preserve, None),
        SoftPin::Enable { ttl_ms } => (proto::SoftPinAction::Enable, ttl_ms),
        SoftPin::Disable => (proto::SoftPinAction::Disable, None),
        SoftPin::Sliding => (proto::SoftPinAction::Sliding, None),
    };
    proto::ReplicateConfig {
        replica_num: config.replica_num,
        soft_pin_action: action.into(),
        soft_pin_ttl_ms: ttl_ms,
        with_hard_pin: config.hard_pin,
        preferred_segments: config.preferred_segments.iter().map(|&name| name.into()).collect(),
        excluded_segment_ids: column::from_segments(config.excluded_segments.iter().copied()),
        data_type: config.data_type.into(),
        same_node: config.same_node,
    }
}

/// Decodes the configuration of a request, which is required.
pub(crate) fn to_config(
    config: Option<&proto::ReplicateConfig>,
) -> Result<ReplicateConfig<'_>, DecodeError> {
    let config = config.ok_or(DecodeError::Missing { what: "config" })?;
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
    let excluded = &config.excluded_segment_ids;
    Ok(ReplicateConfig {
        replica_num: config.replica_num,
        soft_pin,
        hard_pin: config.with_hard_pin,
        preferred_segments: config.preferred_segments.iter().map(String::as_str).collect(),
        excluded_segments: column::to_segment_list("excluded_segment_ids", excluded, MAX_SEGMENTS)?,
        data_type,
        same_node: config.same_node,
    })
}

pub(crate) fn from_mode(mode: PutMode) -> i32 {
    match mode {
        PutMode::Insert => proto::PutMode::Insert.into(),
        PutMode::Upsert => proto::PutMode::Upsert.into(),
    }
}

pub(crate) fn to_mode(mode: i32) -> Result<PutMode, DecodeError> {
    match proto::PutMode::try_from(mode) {
        Ok(proto::PutMode::Insert) => Ok(PutMode::Insert),
        Ok(proto::PutMode::Upsert) => Ok(PutMode::Upsert),
        Err(_) => Err(DecodeError::OutOfRange { what: "mode", value: mode.into() }),
    }
}

/// Encodes the column of groups, which is absent if no object has a group.
pub(crate) fn from_groups<'a>(
    is_grouped: bool,
    groups: impl Iterator<Item = &'a str>,
) -> Vec<Bytes> {
    match is_grouped {
        true => groups.map(|group| Bytes::copy_from_slice(group.as_bytes())).collect(),
        false => Vec::new(),
    }
}

/// Decodes a column of exactly `count` groups. The caller has checked that the column is present.
pub(crate) fn to_groups(
    column: &[Bytes],
    count: usize,
) -> Result<impl Iterator<Item = Result<&str, DecodeError>>, DecodeError> {
    column::check_len("groups", column, count)?;
    Ok(column.iter().map(|group| std::str::from_utf8(group).map_err(|_| DecodeError::GroupNotUtf8)))
}
