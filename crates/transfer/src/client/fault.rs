use std::io;
use std::sync::Arc;

use mooncake_types::ErrorCode;
use mooncake_wire::{DecodeError, FrameError};

use crate::TransferError;

/// What ended a lane, or kept one from being opened.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The system's error.
    Io(io::Error),
    /// The deadline has passed.
    TimedOut,
    /// Something was awaited, and nothing moved for too long.
    Silent,
    /// The peer said why it closes the connection.
    Refused(ErrorCode),
    /// The peer broke the protocol.
    Protocol(String),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Fault::Io(error)
    }
}

impl From<FrameError> for Fault {
    fn from(error: FrameError) -> Self {
        Fault::Protocol(error.to_string())
    }
}

impl From<DecodeError> for Fault {
    fn from(error: DecodeError) -> Self {
        Fault::Protocol(error.to_string())
    }
}

impl Fault {
    pub(crate) fn is_not_ready(&self) -> bool {
        matches!(self, Fault::Io(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// What it means for each operation that was not finished.
    pub(crate) fn explain(&self, endpoint: &Arc<str>) -> TransferError {
        let endpoint = Arc::clone(endpoint);
        match self {
            Fault::TimedOut | Fault::Silent => TransferError::TimedOut { endpoint },
            Fault::Refused(code) => TransferError::Refused(*code),
            Fault::Protocol(reason) => TransferError::Protocol { endpoint, reason: reason.clone() },
            Fault::Io(error) if is_bad_address(error) => {
                TransferError::BadMemory { reason: error.to_string() }
            }
            Fault::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                TransferError::Deserted { endpoint }
            }
            Fault::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                let reason = "it closed the connection".to_owned();
                TransferError::Unreachable { endpoint, reason }
            }
            Fault::Io(error) => TransferError::Unreachable { endpoint, reason: error.to_string() },
        }
    }
}

/// Of all that is done to a connected socket, only bytes to or from memory that is not there answer so.
fn is_bad_address(error: &io::Error) -> bool {
    const EFAULT: i32 = 14;
    error.raw_os_error() == Some(EFAULT)
}
