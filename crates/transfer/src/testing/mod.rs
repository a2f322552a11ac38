//! For tests: a host in memory that keeps the ledger's rules, and bytes that describe themselves.

mod host;
mod partial;
mod pattern;

pub use host::MemoryHost;
pub use pattern::{first_mismatch, pattern};
