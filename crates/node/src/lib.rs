//! A node: the part of a process that lends memory to the pool, with a ledger for each segment.
//!
//! [`SegmentMachine`] and [`LentSegments`] are pure and hold the rules. [`Host`] and [`Segment`] add locks, waiting
//! and real memory; transports call them. This crate sends no request to a master, and knows no operation of a
//! client.

#![forbid(unsafe_code)]

mod disk;
mod host;
mod ledger;
mod lent_segment;
mod locked_machine;
mod machine;
mod mapped;
mod shell;
mod signal;
mod upkeep;

pub use disk::{DiskKind, DiskLosses, DiskOptions, DiskSegment, FailedDisk, OpenDiskError};
pub use host::{Host, UnreportedLosses};
pub use ledger::{
    BegunWrite, ChangedEntries, Clearance, Dropped, Entry, EntryState, FollowAnswer, FoundEntry,
    Inventory, Ledger, ListedEntry,
};
pub use machine::{
    Admission, Effect, LentSegments, Losses, PROMISE, PinKey, SegmentMachine, WriteRequest,
};
pub use mapped::Segment;
pub use mooncake_tier::file_of_range;
pub use upkeep::UpkeepThread;
