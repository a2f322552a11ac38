//! Removal of objects, by key or by a walk over all keys. The list of objects uses the same walk.

mod remove;
mod scan;

pub use remove::RemoveOp;
pub use scan::{ListOp, ListPageOp, ListedPage, RemoveScanOp};
