//! Segments whose bytes lie in a folder or an object store: the shell of a
//! [`SegmentMachine`](crate::SegmentMachine) for disks. A folder holds a log, or one file for each record.
//!
//! Each complete entry of the ledger is one record (`mooncake_tier`). Bytes pass through staging memory
//! (`staging.rs`): writers fill it, and the node appends the record once the last part is there. A reader gets
//! a copy of the record.
//!
//! Changes that must outlive the process are queued under the machine's lock and written outside it
//! (`durability.rs`). Callers that depend on them wait: a drop is acknowledged once the record is erased, and a
//! writer begins once the records in its range are erased.
//!
//! Unlike a named segment, a disk does not store the machine's fences against older writers. Only the node's
//! own process writes to its disk, and its writers end with it.

mod durability;
mod error;
mod health;
mod identity;
mod open;
mod open_entry;
mod reading;
mod segment;
mod staging;
mod writing;

pub use error::OpenDiskError;
pub use health::{DiskLosses, FailedDisk};
pub use open::{DiskKind, DiskOptions};
pub use segment::DiskSegment;
