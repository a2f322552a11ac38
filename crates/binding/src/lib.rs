//! What bindings for other languages share: the rules between their arguments and the Rust client.
//!
//! A binding converts arguments and results of its language. Everything in between is here: which store a `setup`
//! opens ([`Setup`], [`ClientSlot`]), which memory a call may name ([`placed`]), which configurations a put takes
//! ([`ReplicateSettings`]), and which number a result is ([`batch`]).
//!
//! The crate holds no pointers. A binding turns a checked [`mooncake_memory::PlacedRange`] into memory itself, and
//! says who keeps that memory mapped.

#![forbid(unsafe_code)]

pub mod batch;
mod client_slot;
pub mod log;
mod placed;
mod pool_client;
mod protocol;
mod read;
mod replicate_settings;
mod setup;
mod setup_error;
mod write;

pub use client_slot::ClientSlot;
pub use placed::{placed, placed_list};
pub use pool_client::PoolClient;
pub use protocol::warn_of_protocol;
pub use read::get_many;
pub use replicate_settings::{DATA_TYPES, ReplicateSettings, SOFT_PIN_ACTIONS};
pub use setup::{
    DEFAULT_HTTP_PORT, DEFAULT_MASTER, DEFAULT_SIZE, PEER_TO_PEER, RDMA, Setup, StoreOpening, truth,
};
pub use setup_error::SetupError;
pub use write::{Verb, Write};

use mooncake_client::ErrorCode;

/// The result of every call while the store is not set up, or if an argument has a wrong value.
pub const INVALID_PARAMS: i32 = ErrorCode::InvalidParams.number();
