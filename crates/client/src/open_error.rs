use std::net::SocketAddr;

use mooncake_connection::RolesError;
use mooncake_http::ListenError;
use mooncake_memory::NamedSegmentError;
use mooncake_tls::TlsError;
use mooncake_types::{ErrorCode, limits};

/// Why a [`crate::Store`] could not be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// An address in the configuration is invalid: the local hostname, or an address of the master, to listen on, or
    /// to advertise.
    #[error("{what} {text:?} is not an address: {reason}")]
    Address {
        /// Which address.
        what: &'static str,
        /// The text that was given.
        text: String,
        /// Why it is invalid.
        reason: &'static str,
    },
    /// The coordinator that knows the master cannot be asked: its address or its cluster is invalid.
    #[error("{reason}")]
    Coordinator {
        /// What is wrong.
        reason: String,
    },
    /// One-sided transfers are the only way that is allowed to other hosts, and there is no device for them.
    #[error("MOONCAKE_TRANSPORTS allows {transports} alone, and fabric cannot be used: {reason}")]
    Fabric {
        /// The allowed ways.
        transports: String,
        /// Why there is no device.
        reason: String,
    },
    /// The tokens of the pool cannot be used.
    #[error("MOONCAKE_AUTH_ROLES_FILE: {0}")]
    Roles(#[from] RolesError),
    /// The certificates cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A name is longer than the protocol carries.
    #[error("{what} has {len} bytes; at most {limit} are allowed", limit = limits::MAX_NAME_BYTES)]
    NameTooLong {
        /// Which name.
        what: &'static str,
        /// Its length in bytes.
        len: usize,
    },
    /// The segment's size is out of bounds.
    #[error(
        "a segment of {bytes} bytes cannot be lent: it must have none, or from {min} to {max} bytes",
        min = limits::MIN_SEGMENT_BYTES,
        max = limits::MAX_MEMORY_SEGMENT_BYTES
    )]
    SegmentSize {
        /// The size asked for, in bytes.
        bytes: u64,
    },
    /// The local buffer's size is out of bounds.
    #[error(
        "a local buffer of {bytes} bytes is not possible: it must have none, or from 1 KB to 1 TB"
    )]
    LocalBufferSize {
        /// The size asked for, in bytes.
        bytes: u64,
    },
    /// The range of ports is empty or holds port 0.
    #[error("there is no port to choose from in {first}..={last}")]
    Ports {
        /// The first of the range.
        first: u16,
        /// The last of the range.
        last: u16,
    },
    /// The system gave no memory for the segment.
    #[error("a segment of {bytes} bytes cannot be mapped: {reason}")]
    Map {
        /// The size asked for, in bytes.
        bytes: u64,
        /// The system's error.
        reason: String,
    },
    /// The file cannot be used for a named segment.
    #[error("the segment file {path} cannot be used: {error}{advice}", advice = advice(error))]
    NamedSegment {
        /// The file.
        path: String,
        /// What is wrong.
        error: NamedSegmentError,
    },
    /// The folder cannot be lent as a disk.
    #[error("the folder {path} cannot be lent as a disk: {reason}")]
    Disk {
        /// The folder.
        path: String,
        /// What is wrong.
        reason: String,
    },
    /// The object store cannot be used.
    #[error("the object store {url} cannot be used: {reason}")]
    ObjectStore {
        /// The store, and a prefix in it.
        url: String,
        /// What is wrong.
        reason: String,
    },
    /// The hot cache's size is out of bounds.
    #[error("a hot cache of {bytes} bytes is not possible: it must have none, or at least 1 MiB")]
    HotCacheSize {
        /// The size asked for, in bytes.
        bytes: u64,
    },
    /// There is no memory for the hot cache.
    #[error("the hot cache: {reason}")]
    HotCache {
        /// What is wrong.
        reason: String,
    },
    /// The system gave no random numbers.
    #[error("the system gives no random numbers: {reason}")]
    Random {
        /// The system's error.
        reason: String,
    },
    /// No master answered in time.
    #[error(
        "no master answered at {master} within {waited_ms} ms; the last attempt said: {reason}"
    )]
    MasterUnreachable {
        /// The addresses that were tried.
        master: String,
        /// How long they were tried, in milliseconds.
        waited_ms: u64,
        /// Why the last attempt failed.
        reason: String,
    },
    /// Each address was tried once, and no master that leads answered.
    #[error("no master that leads answered at {master}: {reason}")]
    NoLeader {
        /// The addresses that were tried.
        master: String,
        /// The outcome of each attempt.
        reason: String,
    },
    /// The caller gave the store up while it was being opened.
    #[error("the store was not wanted any more before it was open")]
    GivenUp,
    /// The master refuses this client: another cluster, another token, another protocol.
    #[error("the master at {master} refused this client: {message} [{code}]")]
    Refused {
        /// The address of the master.
        master: String,
        /// The master's code.
        code: ErrorCode,
        /// The master's message.
        message: String,
    },
    /// The master did not take the segment.
    #[error("the master refused the segment {name:?} of {bytes} bytes: {code}")]
    MountRefused {
        /// The segment's name.
        name: String,
        /// Its length in bytes.
        bytes: u64,
        /// The master's code.
        code: ErrorCode,
    },
    /// The address to listen on, or that others connect to, does not resolve.
    #[error(
        "the host {host:?}, where others are to reach this process, cannot be resolved: {reason}"
    )]
    HostUnknown {
        /// The host.
        host: String,
        /// The resolver's error.
        reason: String,
    },
    /// The port that was asked for is in use.
    #[error("port {port} is taken: {address} cannot be bound")]
    PortTaken {
        /// The port.
        port: u16,
        /// The address that was tried.
        address: SocketAddr,
    },
    /// Every port of the range is in use.
    #[error("every port of {first}..={last} is taken")]
    AllPortsTaken {
        /// The first of the range.
        first: u16,
        /// The last of the range.
        last: u16,
    },
    /// The address cannot be bound for another reason.
    #[error("{address} cannot be bound: {reason}")]
    Bind {
        /// The address that was tried.
        address: SocketAddr,
        /// The system's error.
        reason: String,
    },
    /// The address of the HTTP server cannot be bound.
    #[error("the HTTP server of this client cannot be started: {0}")]
    Http(ListenError),
    /// The configuration asks for an HTTP server, but the store opens no port.
    #[error("a store that only its own host reaches opens no port, and so has no HTTP server")]
    HttpWithoutPort,
    /// The store cannot listen on a local socket.
    #[error("this host gives no local socket: {reason}")]
    LocalSocket {
        /// The system's error.
        reason: String,
    },
    /// The folder where processes of a pool without a master meet cannot be used.
    #[error("processes cannot meet in the folder {path}: {reason}")]
    PoolFolder {
        /// The folder.
        path: String,
        /// What is wrong.
        reason: String,
    },
    /// The part of the master that this process runs cannot be started.
    #[error("this process cannot run a master: {reason}")]
    OwnMaster {
        /// What is wrong.
        reason: String,
    },
    /// A thread could not be started.
    #[error("the {thread} thread cannot be started: {reason}")]
    Thread {
        /// What the thread is for.
        thread: &'static str,
        /// The system's error.
        reason: String,
    },
}

impl OpenError {
    /// The code that callers of the Python API get.
    #[must_use]
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::Address { .. }
            | Self::Coordinator { .. }
            | Self::NameTooLong { .. }
            | Self::SegmentSize { .. }
            | Self::LocalBufferSize { .. }
            | Self::HotCacheSize { .. }
            | Self::HttpWithoutPort
            | Self::Fabric { .. }
            | Self::Tls(_)
            | Self::Roles(_)
            | Self::PoolFolder { .. }
            | Self::Ports { .. } => ErrorCode::InvalidParams,
            Self::NamedSegment { error, .. } => match error {
                // Other processes may release the file, or the memory for it.
                NamedSegmentError::InUse { .. }
                | NamedSegmentError::System { .. }
                | NamedSegmentError::Map(_) => ErrorCode::InternalError,
                _ => ErrorCode::InvalidParams,
            },
            Self::MasterUnreachable { .. } | Self::NoLeader { .. } | Self::GivenUp => {
                ErrorCode::RpcFail
            }
            Self::Refused { code, .. } | Self::MountRefused { code, .. } => *code,
            Self::Map { .. }
            | Self::Disk { .. }
            | Self::ObjectStore { .. }
            | Self::HotCache { .. }
            | Self::Random { .. }
            | Self::HostUnknown { .. }
            | Self::PortTaken { .. }
            | Self::AllPortsTaken { .. }
            | Self::Bind { .. }
            | Self::Http(_)
            | Self::LocalSocket { .. }
            | Self::OwnMaster { .. }
            | Self::Thread { .. } => ErrorCode::InternalError,
        }
    }
}

const fn advice(error: &NamedSegmentError) -> &'static str {
    match error.ends_with_a_reset() {
        true => "; --segment_reset (MOONCAKE_SEGMENT_RESET=1) puts an empty segment in its place",
        false => "",
    }
}
