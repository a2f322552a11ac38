//! Metrics. The owner counts in plain numbers, and copies them for readers. A reader's thread turns the copy into
//! text.

mod dashboard;
mod histogram;
mod operation;
mod reads;
mod rpc;
mod snapshot;
mod tenants;
mod text;

pub(crate) use operation::{Operation, RequestOutcome};
pub(crate) use reads::Reads;
pub(crate) use rpc::RpcMetrics;
pub(crate) use snapshot::Snapshot;
pub(crate) use text::text;
