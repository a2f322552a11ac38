//! Tests only: libibverbs without a NIC. It has the symbols that `mooncake-fabric` uses, and what stands in the table
//! behind a context.
//!
//! - Requests reach other processes that use the same library, over Unix sockets that are named by GIDs.
//! - Bytes move in small pieces. For each the key and both queue pairs are looked up anew: what is revoked or destroyed
//!   in the middle is not reached from then on.
//! - A write is acknowledged before its bytes are in memory, as NICs do. They land later, or when the same queue pair
//!   reads. Those that have not landed when the key or the queue pair goes are lost.
//! - Completions come last. A request that fails breaks its queue pair, and all behind it are flushed.
//! - Keys return: after 256 registrations at the same place of the table a key is as it was.
//! - Objects that are still used cannot be destroyed.
//!
//! Rust tests link it, pass [`symbol`] to the crate under test, and steer it by [`control`]. For other programs it is a
//! shared library, to which `MOONCAKE_VERBS_DOUBLE` says what host this is: `none` has no NIC, `down` one whose port is
//! down, `2` has two.
//!
//! Each NIC has a network of its own, though all are connected. Its port goes down when a test says so, or fails silently.

pub mod abi;
pub mod api;
mod carry;
pub mod control;
mod link;
mod serve;
mod state;

pub use api::symbol;
