//! What every coordinator promises, tested on each of them, with real servers where there are such; and the faults of
//! each.

mod candidate;
mod contract;
mod file;
mod memory;
mod state_file;
mod wait;
mod world;
