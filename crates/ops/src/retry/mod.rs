//! What is tried again, how often, and with which pauses: everything that this crate repeats for a caller.
//!
//! How long a call goes on as a whole, whatever is left to try, is said by [`Deadline`].

mod deadline;
mod master_retry;
mod policy;

pub use deadline::Deadline;
pub(crate) use master_retry::UNKNOWN_END;
pub use master_retry::{MasterRetry, is_idempotent};
pub use policy::{Retry, RetryPolicy};
