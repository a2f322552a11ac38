//! One Redis server as the coordinator.
//!
//! The leader's key has a time to live. Everything that depends on something is a script, which the server runs as
//! one step. The record carries a stamp that counts its writes, so that an attempt whose answer was lost can neither
//! come late nor be done twice.
//!
//! The promises are those of the server: one that loses its memory, or is replaced by a replica that lags, has
//! forgotten the record too.

mod connection;
mod keys;
mod reply;
mod script;
mod server;
mod term;

pub(crate) use server::Server;
