//! A master in this process, over real sockets.

mod admin;
mod admin_bad_input;
mod bad_input;
mod delays;
mod doors;
mod drain;
mod lifecycle;
mod metadata_server;
mod page;
mod replicas;
mod rpc;
mod sight;
mod support;
mod task_wait;
