use mooncake_types::limits::MAX_FRAME_RANGES;
use mooncake_types::{ErrorCode, RangeRead};
use prost::Message;

use crate::{DecodeError, Kind, frame, generated as proto, read, status};

/// Appends a [`Kind::Pin`] frame. The ranges of a connection are numbered in the order in which they are asked for, from 0
/// on, whether they are pinned or not.
///
/// # Panics
/// As [`crate::encode_read`].
pub fn encode_pin(out: &mut Vec<u8>, request_id: u64, ranges: &[RangeRead]) {
    read::append_ranges(out, (Kind::Pin, request_id), ranges);
}

/// The body of a [`Kind::Pin`] frame. Whether the ranges lie in their segments is for the node to check.
///
/// # Errors
/// If the body is no such message, or holds more than [`MAX_FRAME_RANGES`].
pub fn decode_pin(body: &[u8]) -> Result<Vec<RangeRead>, DecodeError> {
    read::decode_read(body)
}

/// Appends a [`Kind::PinReply`] frame: of each range, whether it stays as it is.
pub fn encode_pin_reply(out: &mut Vec<u8>, request_id: u64, results: &[Result<(), ErrorCode>]) {
    frame::append(out, Kind::PinReply, request_id, &status::from_results(results));
}

/// The body of a [`Kind::PinReply`] frame. Whether it has a result for each range is for the caller to check.
///
/// # Errors
/// If the body is no such message, or holds more than [`MAX_FRAME_RANGES`].
pub fn decode_pin_reply(body: &[u8]) -> Result<Vec<Result<(), ErrorCode>>, DecodeError> {
    status::to_results(proto::StatusListResponse::decode(body)?, MAX_FRAME_RANGES)
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
