//! The same connections for tasks of tokio.

mod connection;
mod dial;
mod inbox;
#[cfg(test)]
mod streams;
#[cfg(test)]
mod tests;

pub use connection::AsyncConnection;
pub use inbox::AsyncInbox;
