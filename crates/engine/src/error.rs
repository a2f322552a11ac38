use std::net::SocketAddr;

use mooncake_transfer::{EnvError, TransferError};
use thiserror::Error;

use crate::mailbox::NoteTooLong;

/// Why an engine could not be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// Bytes can only go over TCP.
    #[error("the protocol {name:?} is not in this build; only \"tcp\" is")]
    Protocol {
        /// The protocol that was asked for.
        name: String,
    },
    /// There is no such metadata server, or none that this build can talk to.
    #[error("the metadata server {text:?} cannot be used: {reason}")]
    Metadata {
        /// As it was given.
        text: String,
        /// Why not.
        reason: String,
    },
    /// A hostname or address that cannot be understood.
    #[error("{text:?} is no host, and no host and port: {reason}")]
    Address {
        /// As it was given.
        text: String,
        /// Why not.
        reason: String,
    },
    /// A variable of the environment has a wrong value.
    #[error(transparent)]
    Environment(#[from] EnvError),
    /// No port could be listened on.
    #[error("{address} cannot be listened on: {reason}")]
    Bind {
        /// The last that was tried.
        address: SocketAddr,
        /// The system's words.
        reason: String,
    },
    /// The system has no thread, descriptor or random number.
    #[error("the engine cannot run: {reason}")]
    System {
        /// The system's words.
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
    /// The process has no such memory, or may not read it.
    #[error("{len} bytes at {start:#x} are not all memory that this process can read")]
    NotMapped {
        /// The first byte's address.
        start: u64,
        /// Their length in bytes.
        len: u64,
    },
    /// There are as many registrations as there may be.
    #[error("no more than {limit} ranges can be registered")]
    TooMany {
        /// The limit.
        limit: usize,
    },
    /// The system has not as much memory.
    #[error("the system has no {len} bytes")]
    NoMemory {
        /// How many were asked for.
        len: u64,
    },
    /// The engine was opened by the process that this one was forked from.
    #[error("the engine belongs to the parent process")]
    Forked,
}

/// Why memory is still registered.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UnregisterError {
    /// No registered range starts there, or not one of this kind or length.
    #[error("no such registered range starts at {start:#x}")]
    Unknown {
        /// The address that was given.
        start: u64,
    },
    /// A transfer went on for too long; the memory must not be freed.
    #[error("the range at {start:#x} is still in use by a transfer")]
    Busy {
        /// The range's first byte.
        start: u64,
    },
    /// The engine was opened by the process that this one was forked from.
    #[error("the engine belongs to the parent process")]
    Forked,
}

/// Why a peer could not be talked to.
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
    /// The metadata server does not know it, or could not be asked.
    #[error("the metadata server has no endpoint of {name:?}: {reason}")]
    Unknown {
        /// The name.
        name: String,
        /// What it said.
        reason: String,
    },
    /// It does not answer, or not as an engine does.
    #[error("{name:?} does not answer as an engine: {source}")]
    Silent {
        /// The name.
        name: String,
        /// What happened.
        source: TransferError,
    },
    /// The engine was opened by the process that this one was forked from.
    #[error("the engine belongs to the parent process")]
    Forked,
}

/// Why a transfer failed. No byte of it is under way any more, except that a peer that did not answer in time may yet
/// write to its own memory.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MoveError {
    /// It has more pieces than [`crate::MAX_PIECES`], or they have more bytes than 2^64 - 1.
    #[error("a transfer of {pieces} pieces is too large")]
    TooLarge {
        /// How many it has.
        pieces: usize,
    },
    /// A piece does not lie in one registered range of this process, or in one that may not be written.
    #[error("{len} bytes at {start:#x} do not lie in registered memory of this process that may be {}", if *.written { "written" } else { "read" })]
    NotRegistered {
        /// The piece's first byte.
        start: u64,
        /// Its length in bytes.
        len: u64,
        /// Whether it was to be written.
        written: bool,
    },
    /// The peer could not be found.
    #[error(transparent)]
    Peer(#[from] PeerError),
    /// A piece could not be moved.
    #[error(transparent)]
    Transfer(#[from] TransferError),
    /// The note does not fit.
    #[error(transparent)]
    Note(#[from] NoteTooLong),
    /// It waited so long for its turn that its time was over.
    #[error("the transfer's time was over before its turn came")]
    TimedOut,
    /// There are as many transfers under way as there may be.
    #[error("no more than {limit} transfers can be under way")]
    TooMany {
        /// The limit.
        limit: usize,
    },
    /// The system has no thread for it.
    #[error("the system has no thread for the transfer")]
    NoThread,
    /// The engine was closed, or belongs to the process that this one was forked from.
    #[error("the engine is closed")]
    Closed,
}

impl MoveError {
    /// Whether it ended because time was over.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        matches!(self, MoveError::TimedOut | MoveError::Transfer(TransferError::TimedOut { .. }))
    }
}
