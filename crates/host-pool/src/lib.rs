//! A pool of one host that has no master of its own: each process that joins it runs one, in a thread, and one of these leads.
//!
//! [`HostPool`] is a store with such a master beside it. Where a folder is named, the masters of all processes that name it
//! campaign there (the coordinator `file://` of `mooncake-ha`), and the processes share one pool: when the one that leads
//! closes or dies, another leads, and what the others lent stays. Without a folder the pool ends with its process.
//!
//! Nothing is on the network: masters and nodes listen on local sockets, for processes of this user, and the bytes go through
//! shared memory.

#![forbid(unsafe_code)]

mod address;
mod folder;
mod own_master;
mod pool;

pub use address::HostPoolAddress;
pub use pool::HostPool;
