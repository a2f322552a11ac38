use bytes::Bytes;
use mooncake_types::limits::MAX_REMOTE_MEMORY_BYTES;
use mooncake_types::{ErrorCode, SegmentId};
use prost::Message;

use crate::{DecodeError, Kind, column, frame, generated as proto, status};

/// A segment that a node shares with another process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shared {
    /// Length of the segment, in bytes.
    pub len: u64,
    /// The address of its memory in the node's process.
    pub address: u64,
    /// Whether a file descriptor of the memory follows that of the table.
    pub has_memory: bool,
    /// How the other process reads memory and table by the node's transport, if it asked by TCP.
    pub remote: Option<RemoteSegment>,
}

/// How a peer reaches a segment, in the form of the node's transport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteSegment {
    /// The memory.
    pub memory: Bytes,
    /// The table of what can be read there.
    pub slots: Bytes,
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
///
/// # Panics
/// If a description of memory is longer than [`MAX_REMOTE_MEMORY_BYTES`].
pub fn encode_share_reply(out: &mut Vec<u8>, request_id: u64, answer: Result<&Shared, ErrorCode>) {
    let status_code = Some(status::from_result(answer.map(|_| ())));
    let message = match answer {
        Ok(Shared { len, address, has_memory, remote }) => {
            let (remote_memory, remote_slots) = match remote {
                Some(RemoteSegment { memory, slots }) => (memory.clone(), slots.clone()),
                None => (Bytes::new(), Bytes::new()),
            };
            let (len, address, has_memory) = (*len, *address, *has_memory);
            proto::ShareResponse {
                status_code,
                len,
                address,
                has_memory,
                remote_memory,
                remote_slots,
            }
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
    let (memory, slots) = (message.remote_memory, message.remote_slots);
    column::check_most("remote_memory", memory.len(), MAX_REMOTE_MEMORY_BYTES)?;
    column::check_most("remote_slots", slots.len(), MAX_REMOTE_MEMORY_BYTES)?;
    let is_remote = !memory.is_empty() || !slots.is_empty();
    let remote = is_remote.then_some(RemoteSegment { memory, slots });
    Ok(status::to_result(number).map(|()| Shared { len, address, has_memory, remote }))
}
