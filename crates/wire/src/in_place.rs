use mooncake_types::limits::MAX_FRAME_RANGES;
use mooncake_types::{Epoch, ErrorCode, RangeWrite};
use prost::Message;

use crate::{DecodeError, Kind, frame, generated as proto, status, write};

type Results = [Result<(), ErrorCode>];

/// Appends a [`Kind::Begin`] frame: as [`crate::encode_write`], without payload. [`crate::decode_write`] reads it.
///
/// # Panics
/// As [`crate::encode_write`].
pub fn encode_begin(out: &mut Vec<u8>, request_id: u64, epoch: Epoch, ranges: &[RangeWrite<'_>]) {
    write::append_ranges(out, (Kind::Begin, request_id), epoch, ranges);
}

/// Appends a [`Kind::BeginReply`] frame: of each range, whether the sender may write it.
pub fn encode_begin_reply(out: &mut Vec<u8>, request_id: u64, results: &Results) {
    frame::append(out, Kind::BeginReply, request_id, &status::from_results(results));
}

/// Appends a [`Kind::Complete`] frame: of each range that was begun, whether its bytes are in place or it is given up.
pub fn encode_complete(out: &mut Vec<u8>, request_id: u64, results: &Results) {
    frame::append(out, Kind::Complete, request_id, &status::from_results(results));
}

/// Appends a [`Kind::CompleteReply`] frame: of each range that was begun, whether its bytes are held now.
pub fn encode_complete_reply(out: &mut Vec<u8>, request_id: u64, results: &Results) {
    frame::append(out, Kind::CompleteReply, request_id, &status::from_results(results));
}

/// The body of a [`Kind::BeginReply`] frame. Whether it has a result for each range is for the caller to check.
///
/// # Errors
/// If the body is no such message, or holds more than [`MAX_FRAME_RANGES`].
pub fn decode_begin_reply(body: &[u8]) -> Result<Vec<Result<(), ErrorCode>>, DecodeError> {
    decode_results(body)
}

/// The body of a [`Kind::Complete`] frame; as [`decode_begin_reply`].
///
/// # Errors
/// As [`decode_begin_reply`].
pub fn decode_complete(body: &[u8]) -> Result<Vec<Result<(), ErrorCode>>, DecodeError> {
    decode_results(body)
}

/// The body of a [`Kind::CompleteReply`] frame; as [`decode_begin_reply`].
///
/// # Errors
/// As [`decode_begin_reply`].
pub fn decode_complete_reply(body: &[u8]) -> Result<Vec<Result<(), ErrorCode>>, DecodeError> {
    decode_results(body)
}

fn decode_results(body: &[u8]) -> Result<Vec<Result<(), ErrorCode>>, DecodeError> {
    status::to_results(proto::StatusListResponse::decode(body)?, MAX_FRAME_RANGES)
}
