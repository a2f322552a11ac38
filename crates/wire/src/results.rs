use mooncake_types::ErrorCode;
use mooncake_types::limits::MAX_FRAME_RANGES;
use prost::Message;

use crate::{DecodeError, Kind, frame, generated as proto, status};

/// Appends a frame of this kind that says what came of each range, in the order of the request: a [`Kind::WriteReply`],
/// [`Kind::DropReply`], [`Kind::PromiseReply`], [`Kind::PinReply`], [`Kind::BeginReply`], [`Kind::Complete`] or
/// [`Kind::CompleteReply`].
///
/// Or a [`Kind::ReadReply`]: the payload of the ranges that succeeded follows it, and then, for each of them, its status after
/// the copy (zero: the version still lay there) and the CRC32C of each chunk, as little-endian `u32`s.
pub fn encode_results(
    out: &mut Vec<u8>,
    kind: Kind,
    request_id: u64,
    results: &[Result<(), ErrorCode>],
) {
    frame::append(out, kind, request_id, &status::from_results(results));
}

/// The body of a frame that [`encode_results`] appended. Whether it has one result for each range is for the caller to check.
///
/// # Errors
/// If the body is no such message, or holds more than [`MAX_FRAME_RANGES`].
pub fn decode_results(body: &[u8]) -> Result<Vec<Result<(), ErrorCode>>, DecodeError> {
    status::to_results(proto::StatusListResponse::decode(body)?, MAX_FRAME_RANGES)
}
