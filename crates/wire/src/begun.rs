use bytes::Bytes;
use mooncake_types::limits::{
    MAX_BEGIN_RANGES, MAX_REMOTE_MEMORY_BYTES, MAX_TRANSPORT_ADDRESS_BYTES,
};
use mooncake_types::{ErrorCode, RangeRead};
use prost::Message;

use crate::{
    DecodeError, Kind, column, frame, generated as proto, generated_fields as fields, read, shape,
    status,
};

/// How a peer reaches ranges that it has begun to read or to write, in the form of the node's transport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begun {
    /// The address at which all of them are reached.
    pub address: Bytes,
    /// For each range its memory, or why it is not reached.
    pub ranges: Vec<Result<Bytes, ErrorCode>>,
}

/// Appends a [`Kind::Expose`] frame. [`crate::decode_read`] decodes the frame.
///
/// # Panics
/// As [`crate::encode_read`].
pub fn encode_expose(out: &mut Vec<u8>, request_id: u64, ranges: &[RangeRead]) {
    read::append_ranges(out, (Kind::Expose, request_id), ranges);
}

/// Appends a [`Kind::Begun`] frame.
///
/// # Panics
/// If the frame is longer than its kind allows.
pub fn encode_begun(out: &mut Vec<u8>, request_id: u64, begun: &Begun) {
    let codes = begun.ranges.iter().map(|range| range.as_ref().map(|_| ()).map_err(|&code| code));
    let message = proto::BegunResponse {
        status_codes: codes.map(status::from_result).collect(),
        remote_memories: begun.ranges.iter().flatten().cloned().collect(),
        address: begun.address.clone(),
    };
    frame::append(out, Kind::Begun, request_id, &message);
}

/// Decodes the body of a [`Kind::Begun`] frame. The caller must check that it has one result for each range.
///
/// # Errors
/// If the body is not a message of this kind, or has more than [`MAX_BEGIN_RANGES`] ranges.
pub fn decode_begun(body: &[u8]) -> Result<Begun, DecodeError> {
    shape::check(body, fields::begun_response::FIELDS)?;
    let proto::BegunResponse { status_codes, remote_memories, address } =
        proto::BegunResponse::decode(body)?;
    let statuses =
        status::to_results(proto::StatusListResponse { status_codes }, MAX_BEGIN_RANGES)?;
    let expected = statuses.iter().filter(|status| status.is_ok()).count();
    if remote_memories.len() != expected {
        let (what, found) = ("remote_memories", remote_memories.len());
        return Err(DecodeError::Length { what, expected, found });
    }
    for memory in &remote_memories {
        column::check_most("remote_memories", memory.len(), MAX_REMOTE_MEMORY_BYTES)?;
    }
    column::check_most("address", address.len(), MAX_TRANSPORT_ADDRESS_BYTES)?;
    let mut memories = remote_memories.into_iter();
    let with_memory = |status: Result<(), ErrorCode>| {
        status.map(|()| memories.next().expect("there are as many as were counted"))
    };
    Ok(Begun { address, ranges: statuses.into_iter().map(with_memory).collect() })
}
