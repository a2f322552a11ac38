//! Stores over real sockets, with a master in this process: the real state machine, one blocking thread per
//! connection.

mod faults;
mod get_session;
mod hostile;
mod hot_cache;
mod http;
mod master;
mod open;
mod patterns;
mod pool;
mod put_session;
mod ranges;
mod recovery;
mod rig;
mod routes;
mod shared_disks;
mod stalled;
mod tasks;
mod upsert;
mod views;
