//! A small HTTP/1 server for operators, with limits on connections, bytes and time. It runs on a thread of its own.
//!
//! The server has no TLS and no authentication, so it must not face the Internet. Its owner passes the
//! [`axum::Router`] that answers requests.
//!
//! Enter at [`listen`], which binds the port, then [`Server::start`]. Handlers that need the body of a request take a
//! [`Content`]. [`prometheus`] writes metrics as text. [`admin`] is a client of masters' servers.

#![forbid(unsafe_code)]

pub mod admin;
mod connections;
mod content;
mod limits;
mod listen;
pub mod process_metrics;
pub mod prometheus;
mod server;
mod web_pages;

pub use content::Content;
pub use limits::Limits;
pub use listen::{ListenError, listen};
pub use server::Server;
