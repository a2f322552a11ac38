//! Peer-to-peer transfers between memory that processes registered: a process names a peer and an address there, and
//! reads or writes the bytes at it.
//!
//! Enter at [`Engine`]. Each engine serves a port; what it serves are the segments of `host.rs`: registered memory, whose
//! offsets are addresses; a directory, which says where registered memory begins; and a mailbox for notes. Peers
//! are found by their address alone ([`Metadata::Handshake`]) or by a name that they left with a metadata server
//! ([`Metadata::Http`]).
//!
//! Nobody reads or writes a byte outside of registered memory, on either side. A transfer holds the registrations that
//! it uses, and [`Engine::unregister`] waits for it: memory that was unregistered is not touched any more.
//!
//! Calls block their own thread. [`Engine::submit`] hands a transfer to one of a few threads of the engine instead.

#![forbid(unsafe_code)]

mod batches;
mod bind;
mod config;
mod engine;
mod error;
mod hold;
mod host;
mod mailbox;
mod metadata;
mod mover;
mod peers;
mod piece;
mod registry;
mod topology;

pub use batches::BatchStatus;
pub use config::{EngineConfig, Metadata};
pub use engine::Engine;
pub use error::{MoveError, OpenError, PeerError, RegisterError, UnregisterError};
pub use mailbox::{MAX_NOTE_BYTES, MAX_NOTES, Note, NoteTooLong};
pub use mooncake_device::place_of;
pub use mooncake_transfer::EnvError;
pub use piece::{MAX_PIECES, Opcode, Piece};
pub use registry::MAX_REGISTRATIONS;
pub use topology::local_topology;
