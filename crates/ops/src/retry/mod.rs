//! What this crate tries again for a caller, how often, and with which pauses.
//!
//! [`Deadline`] limits the call as a whole.

mod deadline;
mod master_retry;
mod policy;

pub use deadline::Deadline;
pub(crate) use master_retry::UNKNOWN_END;
pub use master_retry::{MasterRetry, is_idempotent};
pub use policy::{Retry, RetryPolicy};
