//! From the KV events of an engine to a trace: which blocks its requests named, as far as its events tell.
//!
//! `value` reads MessagePack, `batch` the events in it, and [`EventTrace`] puts requests together.

mod batch;
mod requests;
mod value;

pub use batch::{BadBatch, EventBatch, StoredBlocks};
pub use requests::{EventTrace, EventTraceConfig, Seen};
