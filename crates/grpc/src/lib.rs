//! The master's service for gRPC, `proto/master_service.proto`: turns its calls into operations on the pool.
//!
//! The master hands over connections that begin with the preface of HTTP/2 (`Door`). A link (`link.rs`) of
//! each is a client of the pool like any other, with a connection of its own to the master: it shakes hands with the
//! caller's token, and is bound by all limits. The operations are those of `mooncake-ops`, which clients in Rust have as
//! well; `drive.rs` carries them out.
//!
//! It runs on a thread of its own, so that the master's thread neither parses nor formats for it.

#![forbid(unsafe_code)]

mod arrival;
mod drive;
mod gateway;
#[rustfmt::skip]
#[allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic, reason = "generated")]
mod generated;
mod health;
mod lent_segments;
mod link;
mod node_drops;
mod replicas;
mod service;

pub use arrival::Arrival;
pub use gateway::{Door, Gateway, GatewayConfig};
