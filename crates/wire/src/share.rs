use mooncake_types::{ErrorCode, SegmentId};
use prost::Message;

use crate::{DecodeError, Kind, column, frame, generated as proto, status};

/// A segment that a node shares with another process of its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shared {
    /// Length of the segment, in bytes.
    pub len: u64,
    /// The address of its memory in the node's process.
    pub address: u64,
    /// Whether a file descriptor of the memory follows that of the table.
    pub has_memory: bool,
}

/// Appends a [`Kind::Share`] frame.
pub fn encode_share(out: &mut Vec<u8>, request_id: u64, segment: SegmentId) {
    let message = proto::ShareRequest { segment_id: column::from_id(segment.0) };
    frame::append(out, Kind::Share, request_id, &message);
}

/// Decodes the body of a [`Kind::Share`] frame.
///
/// # Errors
/// If the body is not a message of this kind.
pub fn decode_share(body: &[u8]) -> Result<SegmentId, DecodeError> {
    let message = proto::ShareRequest::decode(body)?;
    column::to_id("segment_id", &message.segment_id).map(SegmentId)
}

/// Appends a [`Kind::ShareReply`] frame.
pub fn encode_share_reply(out: &mut Vec<u8>, request_id: u64, answer: Result<Shared, ErrorCode>) {
    let status_code = Some(status::from_result(answer.map(|_| ())));
    let message = match answer {
        Ok(Shared { len, address, has_memory }) => {
            proto::ShareResponse { status_code, len, address, has_memory }
        }
        Err(_) => proto::ShareResponse { status_code, ..proto::ShareResponse::default() },
    };
    frame::append(out, Kind::ShareReply, request_id, &message);
}

/// Decodes the body of a [`Kind::ShareReply`] frame.
///
/// # Errors
/// If the body is not a message of this kind.
pub fn decode_share_reply(body: &[u8]) -> Result<Result<Shared, ErrorCode>, DecodeError> {
    let message = proto::ShareResponse::decode(body)?;
    let number = message.status_code.ok_or(DecodeError::Missing { what: "status_code" })?;
    let (len, address, has_memory) = (message.len, message.address, message.has_memory);
    Ok(status::to_result(number).map(|()| Shared { len, address, has_memory }))
}
