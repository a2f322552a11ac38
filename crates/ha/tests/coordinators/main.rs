//! The promises of every coordinator, tested on each of them, with real servers of etcd and Redis; and the faults of
//! each coordinator.

mod candidate;
mod contract;
mod etcd;
mod file;
mod kubernetes;
mod memory;
mod redis;
mod server;
mod state_file;
mod wait;
mod world;

use mooncake_testing::{leases, stub};
