//! A segment whose bytes lie in a folder, as records of a log or in files of their own: the shell of a [`SegmentMachine`](crate::SegmentMachine) for disks.
//!
//! Each complete entry of the ledger is one record (`mooncake_tier`). Bytes pass through staging memory
//! (`staging.rs`): a writer fills it, and the record is appended when its last part is there; a reader gets a copy of the record.
//!
//! What the machine wants to outlive the process is queued under its lock, and written without it (`durability.rs`). Who depends
//! on that waits: a drop is acknowledged once the record is erased, and a writer begins once the records in its range are.
//!
//! The machine's fences against older writers need no place on the disk, as they do in a named segment: only the node's own
//! process writes to its disk, and its writers end with it.

mod durability;
mod error;
mod identity;
mod open;
mod open_entry;
mod reading;
mod segment;
mod staging;
mod writing;

pub use error::OpenDiskError;
pub use open::{DiskKind, DiskOptions};
pub use segment::DiskSegment;
