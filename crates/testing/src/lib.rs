//! Shared parts of the tests of several crates: programs as child processes, HTTP requests, the
//! handshake of raw connections, the walk through all doors, and stub servers.

#![forbid(unsafe_code)]

pub mod certificates;
pub mod doors;
mod handshake;
mod http;
pub mod leases;
mod log_lines;
mod master;
mod node;
mod program;
pub mod stub;

pub use handshake::{admit, greet, read_frame};
pub use http::{free_port, http_get};
pub use log_lines::logged;
pub use master::Master;
pub use node::Node;
pub use program::{PATIENCE, Program};
