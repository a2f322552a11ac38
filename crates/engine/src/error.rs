use std::net::SocketAddr;

use mooncake_tls::TlsError;
use mooncake_transfer::{EnvError, TransferError};
use thiserror::Error;

use crate::mailbox::NoteTooLong;

/// Why an engine could not be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// A protocol other than TCP was requested.
    #[error("the protocol {name:?} is not in this build; only \"tcp\" is")]
    Protocol {
        /// The protocol that was asked for.
        name: String,
    },
    /// The certificates cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// `MOONCAKE_TRANSPORTS` does not allow TCP, and there is no device of libibverbs or libfabric.
    #[error("MOONCAKE_TRANSPORTS allows fabric and not tcp, and fabric cannot be used: {reason}")]
    Fabric {
        /// Why it cannot be used.
        reason: String,
    },
    /// The metadata server's address is invalid, the server refused the engine's record, or this build cannot use the
    /// server.
    #[error("the metadata server {text:?} cannot be used: {reason}")]
    Metadata {
        /// The address, as it was given.
        text: String,
        /// Why it cannot be used.
        reason: String,
    },
    /// A hostname or address is invalid.
    #[error("{text:?} is no host, and no host and port: {reason}")]
    Address {
        /// The text, as it was given.
        text: String,
        /// Why it is invalid.
        reason: String,
    },
    /// A variable of the environment has an invalid value.
    #[error(transparent)]
    Environment(#[from] EnvError),
    /// The engine could not listen on any port of the range.
    #[error("{address} cannot be listened on: {reason}")]
    Bind {
        /// The last address that was tried.
        address: SocketAddr,
        /// The system's error message.
        reason: String,
    },
    /// The system refused a thread, a descriptor or random numbers.
    #[error("the engine cannot run: {reason}")]
    System {
        /// The system's error message.
        reason: String,
    },
}

/// Why memory was not registered.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RegisterError {
    /// A null pointer, no bytes, or bytes that run past the end of the address space.
    #[error("{len} bytes at {start:#x} are none, or run past the end of memory")]
    Empty {
        /// The first byte's address.
        start: u64,
        /// Their length in bytes.
        len: u64,
    },
    /// Some of it is registered already.
    #[error("{len} bytes at {start:#x} overlap registered memory")]
    Overlaps {
        /// The first byte's address.
        start: u64,
        /// Their length in bytes.
        len: u64,
    },
    /// Some of the range is not mapped in this process, or cannot be read.
    #[error("{len} bytes at {start:#x} are not all memory that this process can read")]
    NotMapped {
        /// The first byte's address.
        start: u64,
        /// Their length in bytes.
        len: u64,
    },
    /// The engine has as many registrations as it may have.
    #[error("no more than {limit} ranges can be registered")]
    TooMany {
        /// The limit.
        limit: usize,
    },
    /// The system has too little memory.
    #[error("the system has no {len} bytes")]
    NoMemory {
        /// How many bytes were asked for.
        len: u64,
    },
    /// This process was forked from the one that opened the engine.
    #[error("the engine belongs to the parent process")]
    Forked,
}

/// Why memory was not unregistered.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UnregisterError {
    /// No registered range starts there, or it has another kind or length.
    #[error("no such registered range starts at {start:#x}")]
    Unknown {
        /// The address that the caller gave.
        start: u64,
    },
    /// A transfer still uses the range. It stays registered, and must not be freed.
    #[error("the range at {start:#x} is still in use by a transfer")]
    Busy {
        /// The range's first byte.
        start: u64,
    },
    /// This process was forked from the one that opened the engine.
    #[error("the engine belongs to the parent process")]
    Forked,
}

/// Why a peer could not be reached.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PeerError {
    /// The name cannot be that of a peer.
    #[error("{name:?} cannot name a peer: {reason}")]
    Name {
        /// The name.
        name: String,
        /// Why not.
        reason: String,
    },
    /// The metadata server does not know the name, or does not answer.
    #[error("the metadata server has no endpoint of {name:?}: {reason}")]
    Unknown {
        /// The name.
        name: String,
        /// The server's answer, or why there is none.
        reason: String,
    },
    /// The peer does not answer, or not as an engine does.
    #[error("{name:?} does not answer as an engine: {source}")]
    Silent {
        /// The name.
        name: String,
        /// The error of the request.
        source: TransferError,
    },
    /// This process was forked from the one that opened the engine.
    #[error("the engine belongs to the parent process")]
    Forked,
}

/// Why a transfer failed. No byte of it is in flight any more, with one exception: a peer that timed out may still
/// write to its own memory.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MoveError {
    /// The transfer has more than [`crate::MAX_PIECES`] pieces, or 2^64 bytes or more.
    #[error("a transfer of {pieces} pieces is too large")]
    TooLarge {
        /// How many pieces it has.
        pieces: usize,
    },
    /// A piece does not lie in one registered range of this process, or the range is not writable.
    #[error("{len} bytes at {start:#x} do not lie in registered memory of this process that may be {}", if *.written { "written" } else { "read" })]
    NotRegistered {
        /// The piece's first byte.
        start: u64,
        /// Its length in bytes.
        len: u64,
        /// Whether the transfer would have written it.
        written: bool,
    },
    /// The peer could not be found.
    #[error(transparent)]
    Peer(#[from] PeerError),
    /// A piece could not be moved.
    #[error(transparent)]
    Transfer(#[from] TransferError),
    /// The note is too long.
    #[error(transparent)]
    Note(#[from] NoteTooLong),
    /// The transfer's time was over before a thread was free.
    #[error("the transfer's time was over before its turn came")]
    TimedOut,
    /// Too many transfers are under way.
    #[error("no more than {limit} transfers can be under way")]
    TooMany {
        /// The limit.
        limit: usize,
    },
    /// The driver of devices does not take the transfer on this stream, or there is no driver.
    #[error("the stream takes no transfer: {reason}")]
    Stream {
        /// The driver's error, or what is missing.
        reason: String,
    },
    /// The system refused a thread for the transfer.
    #[error("the system has no thread for the transfer")]
    NoThread,
    /// The engine is closed, or this process was forked from the one that opened it.
    #[error("the engine is closed")]
    Closed,
}

impl MoveError {
    /// Whether the transfer failed because its time was over.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        matches!(self, MoveError::TimedOut | MoveError::Transfer(TransferError::TimedOut { .. }))
    }
}
