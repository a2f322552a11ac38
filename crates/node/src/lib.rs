//! A node: the half of a process that lends memory to the pool, and the ledger of what lies in each segment.
//!
//! [`Ledger`] is pure and holds the rules; [`Host`] puts a lock, a wait and real memory around it and is what
//! transports talk to. No request to a master leaves from here, and no operation of a client is known.

#![forbid(unsafe_code)]

mod host;
mod ledger;
mod machine;
mod mapped;

pub use host::{Host, check_drop, check_epoch};
pub use ledger::{
    Begun, ChangedEntries, Clearance, Dropped, Entry, EntryState, FollowAnswer, FoundEntry,
    Inventory, Ledger, ListedEntry,
};
pub use mapped::{PrefaultThread, Segment};
