//! A small HTTP/1 server for operators: bounded in connections, in bytes and in time, on a thread of its own.
//!
//! It is not a server for strangers on the Internet: it has no TLS and no authentication. What it answers is an
//! [`axum::Router`] of whoever runs it.
//!
//! Enter at [`listen`], which takes the port before anything else happens, then [`Server::start`]. Handlers that
//! want the body of a request take a [`Content`]. [`prometheus`] writes metrics as text. [`admin`] is the other side: it asks a
//! master's server.

#![forbid(unsafe_code)]

pub mod admin;
mod connections;
mod content;
mod limits;
mod listen;
pub mod prometheus;
mod server;

pub use content::Content;
pub use limits::Limits;
pub use listen::{ListenError, listen};
pub use server::Server;
