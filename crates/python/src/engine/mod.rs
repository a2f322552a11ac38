//! The classes of `mooncake.engine`, on top of `mooncake_engine::Engine`. Enter at `transfer_engine.rs`. The other
//! modules hold its methods and are named after what they do.

mod array;
mod arrays;
mod batch;
mod code;
mod handle;
mod memory;
mod notify;
mod peer;
mod registration;
mod scatter;
mod stream;
mod transfer;
mod transfer_engine;

pub(crate) use handle::TransferEngineHandle;
pub(crate) use notify::TransferNotify;
pub(crate) use scatter::ScatterTransferTicket;
pub(crate) use transfer_engine::TransferEngine;
