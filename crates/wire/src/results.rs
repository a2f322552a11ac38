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

/// Appends a [`Kind::Complete`] frame with one result for each range. `may_be_late` says that requests which the sender made
/// for the ranges may still be under way.
pub fn encode_complete(
    out: &mut Vec<u8>,
    request_id: u64,
    results: &[Result<(), ErrorCode>],
    may_be_late: bool,
) {
    let proto::StatusListResponse { status_codes } = status::from_results(results);
    let message = proto::CompleteRequest { status_codes, may_be_late };
    frame::append(out, Kind::Complete, request_id, &message);
}

/// Decodes the body of a [`Kind::Complete`] frame, also of one that [`encode_results`] appended: the results, and whether
/// requests of the sender may still be under way. The caller must check that there is one result for each range.
///
/// # Errors
/// If the body is not a message of this kind, or has more than [`MAX_FRAME_RANGES`] results.
pub fn decode_complete(body: &[u8]) -> Result<(Vec<Result<(), ErrorCode>>, bool), DecodeError> {
    let proto::CompleteRequest { status_codes, may_be_late } =
        proto::CompleteRequest::decode(body)?;
    let list = proto::StatusListResponse { status_codes };
    Ok((status::to_results(list, MAX_FRAME_RANGES)?, may_be_late))
}

/// Decodes the body of a frame that [`encode_results`] appended. The caller must check that it has one result for each
/// range.
///
/// # Errors
/// If the body is not a message of this kind, or has more than [`MAX_FRAME_RANGES`] results.
pub fn decode_results(body: &[u8]) -> Result<Vec<Result<(), ErrorCode>>, DecodeError> {
    status::to_results(proto::StatusListResponse::decode(body)?, MAX_FRAME_RANGES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HEADER_LEN;

    #[test]
    fn a_completion_says_whether_something_may_be_late() {
        let results = [Ok(()), Err(ErrorCode::TransferFail)];
        for may_be_late in [false, true] {
            let mut out = Vec::new();
            encode_complete(&mut out, 7, &results, may_be_late);
            assert_eq!(decode_complete(&out[HEADER_LEN..]), Ok((results.to_vec(), may_be_late)));
        }
        let mut out = Vec::new();
        encode_results(&mut out, Kind::Complete, 7, &results);
        assert_eq!(decode_complete(&out[HEADER_LEN..]), Ok((results.to_vec(), false)));
        let mut same = Vec::new();
        encode_complete(&mut same, 7, &results, false);
        assert_eq!(out, same, "older nodes read it");
        let many = vec![Ok(()); MAX_FRAME_RANGES + 1];
        let mut out = Vec::new();
        encode_complete(&mut out, 7, &many, false);
        let error = DecodeError::TooMany { what: "status_codes", limit: MAX_FRAME_RANGES };
        assert_eq!(decode_complete(&out[HEADER_LEN..]), Err(error));
    }
}
