use mooncake_types::limits::MAX_FRAME_RANGES;
use mooncake_types::{ErrorCode, RangeRead};
use prost::Message;

use crate::{DecodeError, Kind, frame, generated as proto, read, status};

/// Appends a [`Kind::Promise`] frame: ranges of which the sender has copies.
///
/// # Panics
/// As [`crate::encode_read`].
pub fn encode_promise(out: &mut Vec<u8>, request_id: u64, ranges: &[RangeRead]) {
    read::append_ranges(out, (Kind::Promise, request_id), ranges);
}

/// The body of a [`Kind::Promise`] frame. Whether the ranges lie in their segments is for the node to check.
///
/// # Errors
/// If the body is no such message, or holds more than [`MAX_FRAME_RANGES`].
pub fn decode_promise(body: &[u8]) -> Result<Vec<RangeRead>, DecodeError> {
    read::decode_read(body)
}

/// Appends a [`Kind::PromiseReply`] frame: of each range, whether it is promised.
pub fn encode_promise_reply(out: &mut Vec<u8>, request_id: u64, results: &[Result<(), ErrorCode>]) {
    frame::append(out, Kind::PromiseReply, request_id, &status::from_results(results));
}

/// The body of a [`Kind::PromiseReply`] frame. Whether it has a result for each range is for the caller to check.
///
/// # Errors
/// If the body is no such message, or holds more than [`MAX_FRAME_RANGES`].
pub fn decode_promise_reply(body: &[u8]) -> Result<Vec<Result<(), ErrorCode>>, DecodeError> {
    status::to_results(proto::StatusListResponse::decode(body)?, MAX_FRAME_RANGES)
}
