//! Connections that carry frames: to a master, to a node's data port or local socket, from a dummy client to its host
//! process.
//!
//! A [`Dialer`] resolves an endpoint, connects, and shakes hands, all within one deadline. On the [`Connection`] that it
//! gives, one side asks and the other answers, one frame at a time; each call has a deadline too. Connections that nobody
//! uses rest in [`IdleConnections`]. TCP and Unix sockets are treated alike.
//!
//! There is no policy here: nothing is tried again, and frames are opaque but for the handshake. A caller that moves payload
//! beside the frames takes the stream of a connection once it is open ([`Connection::into_stream`]).

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
pub use fault::{CallFault, Fault, Progress, Stranger};
pub use frame::{Body, Frame};
pub use idle::IdleConnections;
pub use local::{LOCAL_MARK, TrustedUsers, listen_locally};
pub use permits::{Permit, Permits};
