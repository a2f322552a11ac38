//! One Redis server as the coordinator.
//!
//! The leader's key has a time to live. Every conditional change is a script, which the server runs as one step. The
//! record has a stamp that counts its writes. So an attempt whose answer was lost can neither take effect late, nor
//! twice.
//!
//! The guarantees are those of the server. If it loses its memory, or a lagging replica replaces it, the record is
//! lost too.

mod client;
mod connection;
mod keys;
mod reply;
mod script;
mod server;
mod term;

pub(crate) use client::RedisClient;
pub(crate) use reply::Reply;
pub(crate) use server::RedisBackend;
