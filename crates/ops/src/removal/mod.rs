//! What makes objects go, and has the nodes drop what they hold of them.

mod clear;
pub(crate) mod dropping;
mod erase;
pub(crate) mod predecessors;
mod remove;
mod scan;

pub use clear::ClearOp;
pub use erase::Erase;
pub use remove::{Remove, RemoveOp};
pub use scan::{ListOp, RemoveScanOp};
