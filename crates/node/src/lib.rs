//! A node: the half of a process that lends memory to the pool, and the ledger of what lies in each segment.
//!
//! [`Ledger`] is pure and holds the rules; [`Host`] puts a lock, a wait and real memory around it and is what
//! transports talk to. No request to a master leaves from here, and no operation of a client is known.

#![forbid(unsafe_code)]

mod bell;
mod changes;
mod coverage;
mod discard;
mod entry;
mod follow;
mod frontier;
mod host;
mod inventory;
mod kept;
mod learned_sums;
mod ledger;
mod pinned;
mod pins;
mod populate;
mod segment;

pub use discard::Gone;
pub use entry::{Entry, EntryState};
pub use follow::Told;
pub use host::{Host, check_drop, check_epoch};
pub use inventory::{Changed, Inventory, Listed};
pub use ledger::{Begun, Clearance, Held, Ledger};
pub use populate::Populating;
pub use segment::Segment;
