use mooncake_types::RangeRead;
use mooncake_types::limits::MAX_FRAME_RANGES;
use prost::Message;

use crate::{DecodeError, Kind, frame, generated as proto, read};

/// Appends a [`Kind::Pin`] frame. The ranges of a connection are numbered in the order in which they are asked for, from 0
/// on, whether they are pinned or not. [`crate::decode_read`] reads it.
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

/// The body of a [`Kind::Unpin`] frame.
///
/// # Errors
/// If the body is no such message, or names more than [`MAX_FRAME_RANGES`].
pub fn decode_unpin(body: &[u8]) -> Result<Vec<u64>, DecodeError> {
    let pins = proto::UnpinRequest::decode(body)?.pins;
    if pins.len() > MAX_FRAME_RANGES {
        return Err(DecodeError::TooMany { what: "pins", limit: MAX_FRAME_RANGES });
    }
    Ok(pins)
}
