//! Tiers: objects move from memory to disks, and back.
//!
//! A disk is a segment outside memory ([`Medium`](mooncake_types::Medium)): a folder of a node, a directory that hosts
//! share, or an object store. It takes no puts. A replica on a disk is like any other: it has a range of the disk's
//! address space, and appears in eviction queues, inventories, tombstones and drains.
//!
//! An [`offload`] is a copy task from memory of a node to a disk of the same node. A [`promotion`] is a copy task to
//! memory. Objects are offloaded once they are put, or when eviction chooses them: these [`sink`].
//!
//! Invariants (`check`): copies under way are counted, and stay within their limits. A range in the queue of sinking
//! objects has a task that frees it.

mod check;
mod offload;
mod offloads;
mod promotion;
mod sink;

pub(crate) use self::offloads::Offloads;
pub(crate) use self::promotion::Promotions;
