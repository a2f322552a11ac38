//! Connections that carry frames: to a master, to a node's data port or local socket, from a dummy client to its host
//! process.
//!
//! A [`Dialer`] resolves an endpoint, connects, and shakes hands, all within one deadline. On the [`Connection`] that
//! it returns, one side asks and the other answers, one frame at a time. Each call has its own deadline.
//! [`IdleConnections`] keeps the connections that no call uses. TCP and Unix sockets are treated alike.
//!
//! Below them lies a codec without input or output, [`codec`]: it says how much of the awaited frame has arrived, and
//! checks its length, kind and request id. [`Inbox`] keeps the bytes meanwhile. A side that moves payload beside the
//! frames takes the stream of an open connection ([`Connection::into_stream`]), and uses these two by itself.
//!
//! With the feature `tokio` there is an `AsyncConnection` from the same dialer, by the same codec.
//!
//! This crate holds no policy: it retries nothing, and it decodes no bodies but those of the handshake and refusals.

#![forbid(unsafe_code)]

#[cfg(feature = "tokio")]
mod asynchronous;
pub mod codec;
mod connection;
mod dial;
mod fault;
mod frame;
mod idle;
mod inbox;
mod local;
mod permits;
mod proof;
mod roles;
#[cfg(test)]
mod tests;
mod timed_stream;

#[cfg(feature = "tokio")]
pub use asynchronous::{AsyncConnection, AsyncInbox};
pub use connection::{Connection, is_quiet};
pub use dial::{Dialer, tune};
pub use fault::{CallFault, CallProgress, Fault, Stranger};
pub use frame::{Body, Frame};
pub use idle::IdleConnections;
pub use inbox::Inbox;
pub use local::{LOCAL_MARK, TrustedUsers, listen_locally};
pub use permits::{Permit, Permits};
pub use proof::{Admitted, Answered, Asked, Challenge, on_answer};
pub use roles::{Roles, RolesError, Tokens};
