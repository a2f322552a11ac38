//! Tiers: objects that sink from memory to disks, and come back.
//!
//! A disk is a segment whose bytes lie in a folder of a node, in a directory that hosts share, or in an object store
//! ([`Medium`](mooncake_types::Medium)). It takes no puts. What
//! lies there is a replica like any other: it has a range of the disk's address space, and its place in the queues of eviction,
//! in inventories, tombstones and drains. So an [`offload`] is a copy task from a segment of a node to a disk of the same node,
//! and a [`promotion`] one to memory. Objects are offloaded once they are put, or when eviction chooses them: then they [`sink`].
//!
//! Invariants (`check`): copies under way are counted, and no more than may be. What stands in the queue of the sinking has a
//! task that frees it.

mod check;
mod offload;
mod offloads;
mod promotion;
mod sink;

pub(crate) use self::offloads::Offloads;
pub(crate) use self::promotion::disk_heat;
