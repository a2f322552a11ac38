//! The frames of Mooncake Store: encodes the data types of [`mooncake_types`] to bytes, and decodes them.
//!
//! A connection carries frames in both directions. A frame is a 16-byte [`Header`] and a protobuf body
//! (`proto/mooncake.proto`). Raw payload follows the body of some data frames; the length in the header does not count
//! it. The first frame in each direction is the handshake: the side that connected sends a [`Hello`], the other side a
//! [`Welcome`] or a [`Refusal`].
//!
//! This crate has no sockets and no clock. Every `encode_*` appends one whole frame, header and body. Every `decode_*`
//! takes the body of one frame; the caller has read its [`Kind`] from the header. Bodies are untrusted: decoding never
//! panics, and allocates at most a small multiple of the body's length.
//!
//! Where to enter:
//! - [`encode_request`] and [`decode_request`]: the protocol of the master;
//! - [`encode_read`] and [`encode_write`]: the protocol of a node;
//! - [`encode_dummy_request`]: the protocol between a dummy client and its host process;
//! - [`Hello::check`]: which peers may connect.
//!
//! ```
//! use mooncake_types::Request;
//! use mooncake_wire::{HEADER_LEN, Header, Kind, decode_request, encode_request};
//!
//! let request = Request::exist(vec!["block-1", "block-2"]);
//! let mut frame = Vec::new();
//! encode_request(&mut frame, 7, &request);
//!
//! let (header, body) = frame.split_first_chunk::<HEADER_LEN>().unwrap();
//! let header = Header::decode(header)?;
//! assert_eq!((header.kind, header.request_id), (Kind::Request, 7));
//! let message = decode_request(body[..header.body_len as usize].to_vec().into())?;
//! assert_eq!(message.request()?, request);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod begun;
mod challenge;
mod column;
mod decode_error;
mod drain;
mod drop;
mod dummy_reply;
mod dummy_request;
mod exist;
mod field;
mod follow;
mod foreign;
mod frame;
// prost-build writes this from `proto/mooncake.proto`. A test in `crates/protogen` compares the two and can write it
// anew.
#[rustfmt::skip]
#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    reason = "the code is generated from the schema, which is documented"
)]
mod generated;
#[rustfmt::skip]
#[allow(
    dead_code,
    clippy::all,
    reason = "it names all fields of the schema, of which encoders use those of envelopes alone"
)]
mod generated_fields;
mod handshake;
mod header;
mod inventory;
mod join;
mod mount;
mod pin;
mod promise;
mod put_config;
mod read;
mod reads;
mod remains;
mod replica_lists;
mod reply_decode;
mod reply_encode;
mod request_decode;
mod request_encode;
mod results;
mod shape;
mod share;
mod status;
mod task;
mod trace;
mod write;

pub use begun::{Begun, decode_begun, encode_begun, encode_expose};
pub use challenge::{
    Mac, Nonce, Proof, decode_challenge, decode_proof, encode_challenge, encode_proof,
};
pub use decode_error::DecodeError;
pub use drop::{decode_drop, encode_drop};
pub use dummy_reply::{decode_dummy_reply, encode_dummy_reply};
pub use dummy_request::{DummyRequestMessage, decode_dummy_request, encode_dummy_request};
pub use follow::{
    FollowMessage, decode_follow, decode_follow_reply, encode_follow, encode_follow_reply,
};
pub use foreign::foreign_protocol;
pub use handshake::{
    Expected, Hello, LocalSocket, PROTOCOL_VERSION, Refusal, Role, SOFTWARE_VERSION,
    TransportDescriptor, Welcome, decode_hello, decode_refusal, decode_welcome, encode_hello,
    encode_refusal, encode_welcome, same_secret,
};
pub use header::{FrameError, HEADER_LEN, Header, Kind, MAX_HANDSHAKE_BODY_BYTES, keepalive};
pub use join::{decode_join, decode_join_reply, encode_join, encode_join_reply};
pub use pin::{decode_unpin, encode_pin, encode_unpin};
pub use promise::encode_promise;
pub use read::{decode_read, encode_read};
pub use reply_decode::decode_reply;
pub use reply_encode::encode_reply;
pub use request_decode::{RequestMessage, decode_request};
pub use request_encode::encode_request;
pub use results::{decode_complete, decode_results, encode_complete, encode_results};
pub use share::{
    RemoteSegment, Shared, decode_share, decode_share_reply, encode_share, encode_share_reply,
};
pub use trace::{append_trace, trace_of};
pub use write::{WriteMessage, decode_write, encode_begin, encode_write};
