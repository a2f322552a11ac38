//! The master's network shell: two ports, a clock and a timer around the state machine of `mooncake-meta`.
//!
//! One thread owns the state machine and serves all RPC connections; it never waits for anything but sockets and
//! its timer. The admin HTTP server has a thread of its own and asks the owner through a bounded channel; so has the
//! metadata server of transfer engines, if there is one, which asks nobody.
//! No object byte passes through here, and no rule about objects is decided here.
//!
//! Enter at [`Master::bind`], then [`Master::serve`], which goes from `standby` (and `following`) to `leader_server` and back as the
//! `leadership` of this master begins and ends. In the order of a request's way: `connection` reads and writes, `input` cuts frames,
//! `handshake` admits, `owner` calls the state machine and measures it.

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
mod input;
mod kv_events;
mod leader_server;
mod leadership;
mod link;
mod lookout;
mod metadata_server;
mod metrics;
mod notices;
mod owner;
mod reach;
mod recovery_log;
mod refuse;
mod serve;
mod shell;
mod sight;
mod standby;
mod summary;
mod task_waiters;
mod timer;

pub use bind::{BindError, Master};
pub use config::{Config, DEFAULT_MAX_CONNECTIONS, KvEvents, MetadataServer};
pub use leadership::{LeadershipConfig, Unwritten};
pub use serve::ServeError;
