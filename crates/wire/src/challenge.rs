//! The frames by which both sides of a new connection prove that they know a token, without sending it.

use bytes::Bytes;
use prost::Message;

use crate::{DecodeError, Kind, frame, generated as proto};

/// Random bytes that a side asks the other to answer for.
pub type Nonce = [u8; 16];

/// The answer to a nonce that only those can give who know the token.
pub type Mac = [u8; 32];

/// The answer to a challenge, from the side that opened the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof {
    /// For the proof of the other side.
    pub nonce: Nonce,
    /// See `proto/mooncake.proto`.
    pub mac: Mac,
}

/// Appends a [`Kind::Challenge`] frame.
pub fn encode_challenge(out: &mut Vec<u8>, request_id: u64, nonce: &Nonce) {
    let message = proto::ChallengeResponse { nonce: Bytes::copy_from_slice(nonce) };
    frame::append(out, Kind::Challenge, request_id, &message);
}

/// Decodes the body of a [`Kind::Challenge`] frame.
///
/// # Errors
/// If the body is not a message of this kind.
pub fn decode_challenge(body: &[u8]) -> Result<Nonce, DecodeError> {
    fixed("nonce", &proto::ChallengeResponse::decode(body)?.nonce)
}

/// Appends a [`Kind::Proof`] frame.
pub fn encode_proof(out: &mut Vec<u8>, request_id: u64, proof: &Proof) {
    let (nonce, mac) = (Bytes::copy_from_slice(&proof.nonce), Bytes::copy_from_slice(&proof.mac));
    frame::append(out, Kind::Proof, request_id, &proto::ProofRequest { nonce, mac });
}

/// Decodes the body of a [`Kind::Proof`] frame.
///
/// # Errors
/// If the body is not a message of this kind.
pub fn decode_proof(body: &[u8]) -> Result<Proof, DecodeError> {
    let proto::ProofRequest { nonce, mac } = proto::ProofRequest::decode(body)?;
    Ok(Proof { nonce: fixed("nonce", &nonce)?, mac: fixed("mac", &mac)? })
}

/// Bytes of this length.
pub(crate) fn fixed<const N: usize>(
    what: &'static str,
    bytes: &[u8],
) -> Result<[u8; N], DecodeError> {
    match bytes.try_into() {
        Ok(bytes) => Ok(bytes),
        Err(_) if bytes.is_empty() => Err(DecodeError::Missing { what }),
        Err(_) => Err(DecodeError::Length { what, expected: N, found: bytes.len() }),
    }
}
