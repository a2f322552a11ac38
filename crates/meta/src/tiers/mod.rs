//! Tiers: objects that sink from memory to disks.
//!
//! A disk is a segment whose bytes lie in a folder of a node ([`Medium::Disk`](mooncake_types::Medium)). It takes no puts. What
//! lies there is a replica like any other: it has a range of the disk's address space, and its place in the queues of eviction,
//! in inventories, tombstones and drains. So an offload is a copy task from a segment of a node to a disk of the same node.

mod offload;
mod promotion;

pub(crate) use self::offload::Offloads;
pub(crate) use self::promotion::Promotions;
