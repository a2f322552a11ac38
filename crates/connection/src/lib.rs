//! Connections that carry frames: to a master, to a node's data port or local socket, from a dummy client to its host
//! process.
//!
//! A [`Dialer`] resolves an endpoint, connects, and shakes hands, all within one deadline. On the [`Connection`] that
//! it returns, one side asks and the other answers, one frame at a time. Each call has its own deadline.
//! [`IdleConnections`] keeps the connections that no call uses. TCP and Unix sockets are treated alike.
//!
//! This crate holds no policy: it retries nothing, and it reads no frames but those of the handshake and refusals. A
//! caller that moves payload beside the frames takes the stream of an open connection ([`Connection::into_stream`]).

#![forbid(unsafe_code)]

mod connection;
mod dial;
mod fault;
mod frame;
mod idle;
mod local;
mod permits;
#[cfg(test)]
mod tests;

pub use connection::{Connection, is_quiet};
pub use dial::{Dialer, tune};
pub use fault::{CallFault, CallProgress, Fault, Stranger};
pub use frame::{Body, Frame};
pub use idle::IdleConnections;
pub use local::{LOCAL_MARK, TrustedUsers, listen_locally};
pub use permits::{Permit, Permits};
