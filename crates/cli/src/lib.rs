//! The programs of Mooncake Store: `mooncake`, which holds them all, and `mooncake_master` and `mooncake_client`, which are
//! names for two of its commands.
//!
//! Here are flags, configuration files, logs and signals; what the programs do lies in `mooncake-master` and
//! `mooncake-client`. Enter at [`master::main`] and [`client::main`]; `gflags` says which spellings of flags are
//! understood, `command_line` in which order their sources count.

#![forbid(unsafe_code)]

pub mod alias;
mod arguments;
mod auth_token;
pub mod client;
pub mod command_line;
pub mod config_file;
pub mod doctor;
pub mod drain;
mod exit;
pub mod explain;
pub mod gflags;
mod glog;
pub mod logging;
pub mod master;
pub mod mooncake;
mod no_effect;
mod open_files;
pub mod quantity;
mod segment_list;
pub mod status;
pub mod stop_signal;
pub mod trace;

pub use arguments::with_arguments;
