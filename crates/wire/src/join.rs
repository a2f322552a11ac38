use bytes::Bytes;
use mooncake_types::ErrorCode;
use mooncake_types::limits::MAX_TRANSPORT_ADDRESS_BYTES;
use prost::Message;

use crate::{DecodeError, Kind, column, frame, generated as proto, status};

/// Appends a [`Kind::Join`] frame: the address of the sender's end of a connection.
///
/// # Panics
/// If it is longer than [`MAX_TRANSPORT_ADDRESS_BYTES`].
pub fn encode_join(out: &mut Vec<u8>, request_id: u64, address: &Bytes) {
    let message = proto::JoinRequest { address: address.clone() };
    frame::append(out, Kind::Join, request_id, &message);
}

/// Decodes the body of a [`Kind::Join`] frame.
///
/// # Errors
/// If the body is not a message of this kind.
pub fn decode_join(body: &[u8]) -> Result<Bytes, DecodeError> {
    let message = proto::JoinRequest::decode(body)?;
    column::check_most("address", message.address.len(), MAX_TRANSPORT_ADDRESS_BYTES)?;
    Ok(message.address)
}

/// Appends a [`Kind::JoinReply`] frame: the address of the node's end, or why there is none.
///
/// # Panics
/// As [`encode_join`].
pub fn encode_join_reply(out: &mut Vec<u8>, request_id: u64, answer: Result<&Bytes, ErrorCode>) {
    let status_code = Some(status::from_result(answer.map(|_| ())));
    let message = proto::JoinResponse { status_code, address: answer.cloned().unwrap_or_default() };
    frame::append(out, Kind::JoinReply, request_id, &message);
}

/// Decodes the body of a [`Kind::JoinReply`] frame.
///
/// # Errors
/// If the body is not a message of this kind.
pub fn decode_join_reply(body: &[u8]) -> Result<Result<Bytes, ErrorCode>, DecodeError> {
    let message = proto::JoinResponse::decode(body)?;
    let number = message.status_code.ok_or(DecodeError::Missing { what: "status_code" })?;
    column::check_most("address", message.address.len(), MAX_TRANSPORT_ADDRESS_BYTES)?;
    Ok(status::to_result(number).map(|()| message.address))
}
