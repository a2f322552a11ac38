//! A node: the half of a process that lends memory to the pool, and the ledger of what lies in each segment.
//!
//! [`SegmentMachine`] and [`LentSegments`] are pure and hold the rules. [`Host`] and [`Segment`] put locks, a wait and real
//! memory around them, and are what transports talk to. No request to a master leaves from here, and no operation of a
//! client is known.

#![forbid(unsafe_code)]

mod disk;
mod host;
mod ledger;
mod lent_segment;
mod locked_machine;
mod machine;
mod mapped;
mod prefault;
mod shell;
mod signal;

pub use disk::{DiskKind, DiskOptions, DiskSegment, OpenDiskError};
pub use host::Host;
pub use ledger::{
    Begun, ChangedEntries, Clearance, Dropped, Entry, EntryState, FollowAnswer, FoundEntry,
    Inventory, Ledger, ListedEntry,
};
pub use machine::{Admission, Effect, LentSegments, PROMISE, PinKey, SegmentMachine, WriteRequest};
pub use mapped::Segment;
pub use mooncake_tier::file_of_range;
pub use prefault::PrefaultThread;
