use mooncake_types::RangeRead;
use mooncake_types::limits::MAX_FRAME_RANGES;
use prost::Message;

use crate::{DecodeError, Kind, frame, generated as proto, read};

/// Appends a [`Kind::Pin`] frame. The ranges of all pin frames of a connection are numbered consecutively, from 0,
/// whether the node pins them or not. [`crate::decode_read`] decodes the frame.
///
/// # Panics
/// As [`crate::encode_read`].
pub fn encode_pin(out: &mut Vec<u8>, request_id: u64, ranges: &[RangeRead]) {
    read::append_ranges(out, (Kind::Pin, request_id), ranges);
}

/// Appends a [`Kind::Unpin`] frame: the numbers of ranges that may change again.
pub fn encode_unpin(out: &mut Vec<u8>, request_id: u64, pins: &[u64]) {
    let message = proto::UnpinRequest { pins: pins.to_vec() };
    frame::append(out, Kind::Unpin, request_id, &message);
}

/// Decodes the body of a [`Kind::Unpin`] frame.
///
/// # Errors
/// If the body is not a message of this kind, or names more than [`MAX_FRAME_RANGES`] ranges.
pub fn decode_unpin(body: &[u8]) -> Result<Vec<u64>, DecodeError> {
    let pins = proto::UnpinRequest::decode(body)?.pins;
    if pins.len() > MAX_FRAME_RANGES {
        return Err(DecodeError::TooMany { what: "pins", limit: MAX_FRAME_RANGES });
    }
    Ok(pins)
}
