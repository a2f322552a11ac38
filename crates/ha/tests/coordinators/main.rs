//! What every coordinator promises, tested on each of them, with real servers where there are such; and the faults of
//! each.

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
