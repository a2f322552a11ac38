//! Moves bytes between callers' memory and the segments of storage nodes, and serves a node's data port.
//!
//! A [`Transport`] reads and writes ranges at nodes: [`LocalTransport`] in this process, [`TcpTransport`] at any
//! other, [`Paths`] by the nearest of all ways. Each way is a `Carrier` (`carrier.rs`). A node implements [`SegmentHost`], and [`DataServer`] serves it over TCP.
//! A read is `Ok` only if the host still held that version after the copy, and the checksums match. A write is
//! complete only if all bytes arrived and their checksums match.
//!
//! There is no policy here: no choice of replica, no lease, and keys only travel through. Sockets block, and all work
//! is done on the caller's own thread.
//!
//! Enter at [`Transport`] for what callers do and at [`SegmentHost`] for what a node promises.

#![forbid(unsafe_code)]

mod auth_token;
mod begin_reads;
mod carrier;
mod copy_out;
mod error;
mod examination;
mod fallbacks;
mod far;
mod host;
mod hot;
mod local;
mod local_socket;
mod near;
mod op;
mod open_write;
mod own_segments;
mod parts;
mod paths;
mod peer_ways;
mod protocol;
mod seal_keys;
mod source;
mod staged;
mod tcp;
mod tcp_calls;
mod tcp_config;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod transport;
mod transports;
mod variables;
mod verify;
mod view;

mod client;
mod plan;
mod server;
mod stream;
mod sums;
#[cfg(test)]
mod tests;

pub use auth_token::{
    EnvError, TokenFileError, read_token_file, tls_of_variables, token_of_variables,
};
pub use error::TransferError;
pub use examination::Examination;
pub use far::{DeviceWish, FarLender, NO_NIC};
pub use host::{Interrupt, Pin, ReadTicket, SegmentHost, SharedSegment, WriteTicket};
pub use hot::{HotCache, HotCacheConfig, HotCacheCounts, HotCacheError};
pub use local::LocalTransport;
pub use local_socket::LocalListener;
pub use mooncake_fabric::{
    DeviceOptions as FabricOptions, Domain as FabricDevice, Limits as FabricLimits, NicUse,
    OpenError as FabricError, Position, VerbsOptions,
};
pub use mooncake_types::NodeDrop;
pub use near::Distance;
pub use op::{ReadOp, ViewOp, WriteOp};
pub use paths::Paths;
pub use protocol::is_served_by_tcp;
pub use seal_keys::SealKeys;
pub use server::{DataListener, DataServer, Served, ServedWay, ServerConfig};
pub use source::Source;
pub use staged::StagedTransport;
pub use tcp::TcpTransport;
pub use tcp_config::TcpConfig;
pub use transport::Transport;
pub use transports::{Transports, TransportsError, Way};
pub use variables::Variables;
pub use view::View;
