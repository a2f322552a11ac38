//! Peer-to-peer transfers between registered memory. A process names a peer and an address there, and reads or writes
//! the bytes at that address.
//!
//! Enter at [`Engine`]. Each engine listens on a port and serves three segments, which `host.rs` defines:
//!
//! - registered memory, whose offsets are addresses;
//! - a directory, which names the oldest registered range;
//! - a mailbox for notes.
//!
//! Peers are found by their address ([`Metadata::Handshake`]), or by a name that they published with a metadata server
//! ([`Metadata::Http`], [`Metadata::Values`]).
//!
//! Neither side reads or writes a byte outside of its registered memory. A transfer holds the registrations that it
//! uses, and [`Engine::unregister`] waits for it, so unregistered memory is never touched.
//!
//! Calls block their thread. [`Engine::submit`] hands a transfer to one of the engine's few threads instead, and
//! [`Engine::transfer_on_stream`] to a stream of a device.

#![forbid(unsafe_code)]

mod batches;
mod bind;
mod config;
mod engine;
mod error;
mod fabric;
mod hold;
mod host;
mod http_server;
mod mailbox;
mod metadata;
mod mover;
mod network_cards;
mod pages;
mod peers;
mod piece;
mod registry;
mod scatter;
mod stream;
mod ticket;
mod topology;

pub use config::{EngineConfig, Metadata};
pub use engine::Engine;
pub use error::{MoveError, OpenError, PeerError, RegisterError, UnregisterError};
pub use mailbox::{MAX_NOTE_BYTES, MAX_NOTES, Note, NoteTooLong};
pub use mooncake_device::place_of;
pub use mooncake_ha::ValuesLogin;
pub use mooncake_transfer::EnvError;
pub use network_cards::NetworkCards;
pub use pages::{Field, Pages, PagesError};
pub use piece::{MAX_PIECES, Opcode, Piece};
pub use registry::{MAX_REGISTRATIONS, RemoteAccess};
pub use scatter::{ScatterError, ScatterRange};
pub use ticket::{BatchStatus, Ticket};
pub use topology::local_topology;
