//! Dummy clients of Mooncake Store: processes that use the pool through another process of their host, a `mooncake_client`, and share
//! memory with it. A dummy holds no segment, knows no master and opens no connection to a node.
//!
//! [`DummyServer`] is the host's side, [`DummyStore`] the dummy's. They speak over the abstract Unix socket
//! `@mooncake_client_<port>.sock`: one [`DummyRequest`] for each call and one [`DummyReply`], and never an object's byte.
//! Memory is handed over as descriptors of sealed memory files; requests name pieces of it.
//!
//! A dummy is *attached* from its first connection, the control connection, to the end of that. Further connections name
//! the attachment, and carry one call at a time each.
//!
//! [`DummyRequest`]: mooncake_types::DummyRequest
//! [`DummyReply`]: mooncake_types::DummyReply

#![forbid(unsafe_code)]

mod attached_dummies;
mod attached_dummy;
mod batch;
mod connection;
mod get;
mod host_link;
mod keyed;
mod malformed;
mod open_connections;
mod places;
mod put;
mod ranged;
mod serve;
mod server;
mod socket_name;
mod stage;
mod store;

pub use server::{DummyServer, DummyServerConfig};
pub use store::{DummyConfig, DummyError, DummyStore};
