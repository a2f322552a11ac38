//! Stores over real sockets, with a master in this process: the real state machine behind plain blocking threads.

mod faults;
mod master;
mod open;
mod patterns;
mod pool;
mod rig;
