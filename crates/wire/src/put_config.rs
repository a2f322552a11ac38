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

/// Encodes the groups, or the sessions, of all objects. Without any the column is absent.
pub(crate) fn from_labels<'a>(labels: impl Iterator<Item = &'a str> + Clone) -> Vec<Bytes> {
    match labels.clone().any(|label| !label.is_empty()) {
        true => labels.map(|label| Bytes::copy_from_slice(label.as_bytes())).collect(),
        false => Vec::new(),
    }
}

/// Decodes the groups, or the sessions, of `count` objects; empty texts if the column is absent.
pub(crate) fn to_labels<'a>(
    name: &'static str,
    column: &'a [Bytes],
    count: usize,
) -> Result<impl Iterator<Item = Result<&'a str, DecodeError>>, DecodeError> {
    if !column.is_empty() {
        column::check_len(name, column, count)?;
    }
    let decoded =
        column.iter().map(|label| str::from_utf8(label).map_err(|_| DecodeError::LabelNotUtf8));
    Ok(decoded.chain(std::iter::repeat_n(Ok(""), count - column.len())))
}
