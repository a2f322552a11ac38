//! The programs of Mooncake Store. The binary `mooncake` holds all of them. `mooncake_master` and `mooncake_client`
//! run two of its commands.
//!
//! This crate has flags, configuration files, logs and signals. The work of the programs is in `mooncake-master` and
//! `mooncake-client`. Enter at [`master::main`] and [`client::main`]. `gflags` defines the spellings of flags, and
//! `command_line` the order of their sources.

#![forbid(unsafe_code)]

mod admin_masters;
pub mod alias;
mod arguments;
mod auth_token;
mod bench;
pub mod client;
pub mod command_line;
mod completions;
pub mod config_file;
pub mod doctor;
pub mod drain;
mod events;
mod exit;
pub mod explain;
pub mod gflags;
mod glog;
pub mod logging;
mod man;
pub mod master;
mod master_http;
pub mod mooncake;
mod no_effect;
mod objects;
mod open_files;
mod otel;
mod pool;
pub mod quantity;
mod segment_list;
pub mod status;
pub mod stop_signal;
mod tls_flags;
mod top;
pub mod trace;
mod version;

pub use arguments::with_arguments;
