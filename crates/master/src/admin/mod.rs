//! The admin HTTP server: a thread and a runtime of its own, which ask the owner and never hold it up.

mod all_keys;
mod authorize;
mod drains;
mod error;
mod health;
mod keys;
mod kv_events;
mod parameters;
mod prometheus;
mod remove_all;
mod segments;
mod server;
mod state;

pub(crate) use server::router;
pub(crate) use state::AdminState;
