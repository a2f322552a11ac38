//! Pools of one host without a separate master. Each process of the pool runs a master in a thread, and one of them
//! leads.
//!
//! A [`HostPool`] is a store with its own master. If a folder is named, the masters of all its processes campaign
//! there (the coordinator `file://` of `mooncake-ha`), and the processes share one pool. When the leader closes or
//! dies, another one leads, and the segments of other processes remain. Without a folder, the pool ends with its
//! process.
//!
//! Nothing listens on the network. Masters and nodes listen on local sockets for processes of this user, and bytes
//! travel through shared memory.

#![forbid(unsafe_code)]

mod address;
mod folder;
mod own_master;
mod pool;

pub use address::HostPoolAddress;
pub use pool::HostPool;
