//! What is measured: counted by the owner in plain numbers, copied for whoever wants to see it, turned into text
//! on the reader's thread.

mod histogram;
mod operation;
mod reads;
mod rpc;
mod snapshot;
mod text;

pub(crate) use operation::Operation;
pub(crate) use reads::Reads;
pub(crate) use rpc::RpcMetrics;
pub(crate) use snapshot::Snapshot;
pub(crate) use text::text;
