//! Nodes on this host: their segments are mapped here, and read without a message.
//!
//! [`Near`] finds out which nodes are on this host. A [`neighbour::Neighbour`] is one of them, for as long as its
//! process lives. Reads and writes that cannot use the mapped memory go as frames over the node's local socket.

mod carrier;
mod failed_questions;
mod in_place;
mod known_peers;
mod neighbour;
mod peer_discovery;
mod pins;
mod prefault;
mod reach;
mod read;
mod segment;
mod show;
mod visit;
mod write;

pub(crate) use known_peers::Near;
pub use peer_discovery::Distance;
