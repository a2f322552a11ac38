//! Makes a trace from the KV events of an engine: which blocks its requests named, as far as the events tell.
//!
//! `value` reads MessagePack, `batch` reads the events, and [`EventTrace`] joins them into requests.

mod batch;
mod requests;
mod value;

pub use batch::{BadBatch, EventBatch, StoredBlocks};
pub use requests::{EventTrace, EventTraceConfig, Seen};
pub use value::{NoValue, Value, read as read_value};
