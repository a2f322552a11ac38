//! Dummy clients: processes that use the pool through another process of their host, a `mooncake_client`, and share
//! memory with it. A dummy holds no segment, knows no master and opens no connection to a node.
//!
//! [`DummyServer`] is the host's side, [`DummyStore`] the dummy's. They speak over the abstract Unix socket
//! `@mooncake_client_<port>.sock`: one frame for each call and one for its answer, and never an object's byte. Memory is
//! handed over as descriptors of sealed memory files; frames name places in it.

mod answer;
mod attached_dummy;
mod connection;
mod fields;
mod get;
mod keyed;
mod line;
mod lines;
mod link;
mod protocol;
mod put;
mod ranged;
mod serve;
mod server;
mod stage;
mod store;

pub use server::{DummyServer, DummyServerConfig};
pub use store::{DummyConfig, DummyError, DummyStore};

/// The name of the abstract socket, without the zero in front that a listing shows as `@`.
fn socket_name(port: u16) -> String {
    format!("mooncake_client_{port}.sock")
}

/// Whether a process of this user may be on the other side: one of our own user, or of root, who may do everything
/// anyway.
///
/// # Errors
/// In words.
fn check_user(uid: u32) -> Result<(), String> {
    let own = rustix::process::geteuid();
    match uid == own.as_raw() || rustix::process::Uid::from_raw(uid).is_root() {
        true => Ok(()),
        false => Err(format!("this process is of user {own}, the one on the other side of {uid}")),
    }
}

#[cfg(test)]
mod tests;
