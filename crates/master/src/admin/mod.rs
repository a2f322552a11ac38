//! The admin HTTP server. It has its own thread and runtime, asks the owner, and never delays it.

mod authorize;
mod drains;
mod error;
mod health;
mod key_list;
mod keys;
mod kv_events;
mod page;
mod parameters;
mod prometheus;
mod removal;
mod scan;
mod segments;
mod server;
mod soft_pins;
mod state;
mod tenant_quotas;
mod version;

pub(crate) use authorize::{Guard, named as named_token};
pub(crate) use page::Frames;
pub(crate) use server::router;
pub(crate) use state::AdminState;
