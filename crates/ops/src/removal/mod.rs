//! What makes objects go.

mod remove;
mod scan;

pub use remove::RemoveOp;
pub use scan::{ListOp, RemoveScanOp};
