//! What tests of several crates share: programs as processes of their own (started, listened to, stopped, paused and
//! killed), questions over HTTP, and servers that are stubs.

#![forbid(unsafe_code)]

mod http;
pub mod leases;
mod master;
mod node;
mod program;
pub mod stub;

pub use http::{free_port, http_get};
pub use master::Master;
pub use node::Node;
pub use program::{PATIENCE, Program};
