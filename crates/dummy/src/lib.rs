//! Dummy clients of Mooncake Store. A dummy uses the pool through another process of its host, a `mooncake_client`,
//! and shares memory with it. It holds no segment, knows no master and opens no connection to a node.
//!
//! [`DummyServer`] is the host's side, [`DummyStore`] the dummy's side. They talk over the abstract Unix socket
//! `@mooncake_client_<port>.sock`. Each call is one [`DummyRequest`] and one [`DummyReply`], without any bytes of
//! objects. Memory is handed over as descriptors of sealed memory files; requests name pieces of it.
//!
//! A dummy is *attached* from its first connection, the control connection, until that ends. Further connections name
//! the attachment, and carry one call at a time each.
//!
//! [`DummyRequest`]: mooncake_types::DummyRequest
//! [`DummyReply`]: mooncake_types::DummyReply

#![forbid(unsafe_code)]

mod attach;
mod attached_dummies;
mod attached_dummy;
mod batch;
mod connection;
mod get;
mod host_link;
mod keyed;
mod malformed;
mod open_connections;
mod overdue_calls;
mod put;
mod ranged;
mod segment_table;
mod serve;
mod server;
mod socket_name;
mod stage;
mod store;

pub use server::{DummyServer, DummyServerConfig};
pub use store::{DummyConfig, DummyError, DummyStore};
