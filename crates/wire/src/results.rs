use mooncake_types::ErrorCode;
use mooncake_types::limits::MAX_FRAME_RANGES;
use prost::Message;

use crate::{DecodeError, Kind, frame, generated as proto, status};

/// Appends a frame of this kind with one result for each range, in the order of the request: a [`Kind::WriteReply`],
/// [`Kind::DropReply`], [`Kind::PromiseReply`], [`Kind::PinReply`], [`Kind::BeginReply`], [`Kind::Complete`] or
/// [`Kind::CompleteReply`].
///
/// Also a [`Kind::ReadReply`], which the payload of the ranges that succeeded follows. After the payload come, for
/// each of these ranges, its status after the copy and the CRC32C of each chunk, as little-endian `u32`s. The status
/// is zero if the entry still held the version.
pub fn encode_results(
    out: &mut Vec<u8>,
    kind: Kind,
    request_id: u64,
    results: &[Result<(), ErrorCode>],
) {
    frame::append(out, kind, request_id, &status::from_results(results));
}

/// Decodes the body of a frame that [`encode_results`] appended. The caller must check that it has one result for each
/// range.
///
/// # Errors
/// If the body is not a message of this kind, or has more than [`MAX_FRAME_RANGES`] results.
pub fn decode_results(body: &[u8]) -> Result<Vec<Result<(), ErrorCode>>, DecodeError> {
    status::to_results(proto::StatusListResponse::decode(body)?, MAX_FRAME_RANGES)
}
