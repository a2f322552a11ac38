//! The master's network shell: two ports, a clock and a timer around the state machine of `mooncake-meta`.
//!
//! One thread owns the state machine and serves all RPC connections. It never waits for anything but sockets and its
//! timer. The admin HTTP server has its own thread, and asks the owner through a bounded channel. So does the
//! metadata server of transfer engines, if there is one, but it asks nothing. No object byte passes through here, and
//! no rule about objects is decided here.
//!
//! Enter at [`Master::bind`], then [`Master::serve`]. It alternates between `standby` (with `following`) and
//! `leader_server`, as the `leadership` of this master begins and ends. A request passes through four modules:
//! 1. `connection` reads and writes.
//! 2. `input` cuts frames.
//! 3. `handshake` admits peers.
//! 4. `owner` calls the state machine, and measures it.

#![forbid(unsafe_code)]

mod accept;
mod admin;
mod ask;
mod bind;
mod clock;
mod config;
mod connection;
mod drain_log;
mod following;
mod handshake;
mod hot_keys;
mod hour;
mod http2;
mod kv_events;
mod leader_server;
mod leadership;
mod link;
mod long_frames;
mod metadata_server;
mod metrics;
mod notices;
mod obstacle;
mod owner;
mod problems;
mod reach;
mod recovery_log;
mod refuse;
mod request_poller;
mod scan;
mod serve;
mod shell;
mod sight;
mod standby;
mod summary;
mod task_waiters;
mod tenants;
mod timer;
mod troubles;

pub use bind::{BindError, Master};
pub use config::{Config, DEFAULT_MAX_CONNECTIONS, KvEvents, MetadataServer};
pub use http2::Http2Door;
pub use leadership::{LeadershipConfig, PodConfig, StateDir, Unwritten};
pub use mooncake_connection::Roles;
pub use problems::{Problem, SegmentSight};
pub use serve::ServeError;
pub use tenants::{QuotaSource, QuotaSourceError};
