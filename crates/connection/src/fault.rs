use std::fmt;
use std::io;

use mooncake_wire::{DecodeError, Refusal};

use crate::codec::BadFrame;

/// Why a connection ended, or could not be opened.
#[derive(Debug)]
pub enum Fault {
    /// The error of a system call.
    Io(io::Error),
    /// The deadline has passed.
    TimedOut,
    /// The peer sent nothing for too long while this side waited for it.
    Silent,
    /// The peer said why it closes the connection.
    Refused(Refusal),
    /// Another user's process is at the other end of a local socket.
    Stranger(Stranger),
    /// The peer broke the protocol.
    Protocol(String),
}

/// Another user's process is at the other end of a local socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "memory is shared between processes of one user only: this side is user {own}, the other {other}"
)]
pub struct Stranger {
    pub(crate) own: u32,
    pub(crate) other: u32,
}

/// How far a call had come when it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallProgress {
    /// Not a byte left this process: the peer cannot have acted.
    NothingSent,
    /// The connection turned out to be closed before a byte of the answer came.
    Closed,
    /// The peer may have acted.
    Unknown,
}

/// Why a call has no reply. The caller drops the connection.
#[derive(Debug)]
pub struct CallFault {
    /// What happened.
    pub fault: Fault,
    /// How far the call had come.
    pub progress: CallProgress,
}

impl Fault {
    /// Whether a non-blocking socket was not ready for a step of a transfer.
    #[must_use]
    pub fn is_not_ready(&self) -> bool {
        matches!(self, Fault::Io(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// The fault for an error of a blocking socket, where `WouldBlock` means that its timeout passed.
    #[must_use]
    pub fn of_blocking(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Fault::TimedOut,
            _ => Fault::Io(error),
        }
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Fault::Io(error)
    }
}

impl From<Stranger> for Fault {
    fn from(stranger: Stranger) -> Self {
        Fault::Stranger(stranger)
    }
}

impl From<BadFrame> for Fault {
    fn from(error: BadFrame) -> Self {
        Fault::Protocol(error.to_string())
    }
}

impl From<BadFrame> for CallFault {
    fn from(error: BadFrame) -> Self {
        Fault::from(error).into()
    }
}

impl From<DecodeError> for Fault {
    fn from(error: DecodeError) -> Self {
        Fault::Protocol(error.to_string())
    }
}

impl From<CallFault> for Fault {
    fn from(failure: CallFault) -> Self {
        failure.fault
    }
}

impl From<Fault> for CallFault {
    fn from(fault: Fault) -> Self {
        CallFault { fault, progress: CallProgress::Unknown }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Io(error) if is_plain_end(error) => f.write_str("it closed the connection"),
            Fault::Io(error) => error.fmt(f),
            Fault::TimedOut => f.write_str("it did not answer in time"),
            Fault::Silent => f.write_str("it fell silent"),
            Fault::Refused(refusal) => refusal.fmt(f),
            Fault::Stranger(stranger) => stranger.fmt(f),
            Fault::Protocol(reason) => f.write_str(reason),
        }
    }
}

/// Whether the connection ended without a further reason.
fn is_plain_end(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::UnexpectedEof && error.get_ref().is_none()
}
