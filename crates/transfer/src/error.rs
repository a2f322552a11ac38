use std::io;
use std::sync::Arc;

use mooncake_connection::Fault;
use mooncake_device::CopyError;
use mooncake_types::ErrorCode;
use thiserror::Error;

/// Why one range was not moved. Nothing of it is under way any more when this is returned.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TransferError {
    /// The node does not hold that version there, or ceased to while the bytes were read. Asking again is no use; look
    /// the object up again.
    #[error("the node no longer holds that version in that range")]
    Stale,
    /// The node, or its port, said no.
    #[error("the node refused: {0}")]
    Refused(ErrorCode),
    /// There is no connection to the node, or it broke.
    #[error("{endpoint} cannot be reached: {reason}")]
    Unreachable {
        /// The node, `host:port`.
        endpoint: Arc<str>,
        /// What happened.
        reason: String,
    },
    /// Nobody listens there: its host is up, and has turned the connection down.
    #[error("nobody serves at {endpoint}")]
    Deserted {
        /// The node, `host:port`.
        endpoint: Arc<str>,
    },
    /// The node did not answer in time. A write may yet complete there.
    #[error("{endpoint} did not answer in time")]
    TimedOut {
        /// The node, `host:port`.
        endpoint: Arc<str>,
    },
    /// The bytes that arrived are not those that were sent.
    #[error("the bytes moved to or from {endpoint} do not match their checksums")]
    Corrupt {
        /// The node, `host:port`.
        endpoint: Arc<str>,
    },
    /// The node, or the caller, broke the rules.
    #[error("transfer with {endpoint} broke the protocol: {reason}")]
    Protocol {
        /// The node, `host:port`.
        endpoint: Arc<str>,
        /// Which rule.
        reason: String,
    },
    /// The caller's own memory could not be read or written.
    #[error("the caller's memory is not accessible: {reason}")]
    BadMemory {
        /// The system's words.
        reason: String,
    },
}

impl TransferError {
    /// What the end of a connection means for each operation that was not finished.
    pub(crate) fn of_fault(fault: &Fault, endpoint: &Arc<str>) -> Self {
        let endpoint = Arc::clone(endpoint);
        match fault {
            Fault::TimedOut | Fault::Silent => TransferError::TimedOut { endpoint },
            Fault::Refused(refusal) => TransferError::Refused(refusal.code),
            Fault::Protocol(reason) => TransferError::Protocol { endpoint, reason: reason.clone() },
            Fault::Io(error) if is_bad_address(error) => {
                TransferError::BadMemory { reason: error.to_string() }
            }
            Fault::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                TransferError::Deserted { endpoint }
            }
            Fault::Io(_) | Fault::Stranger(_) => {
                TransferError::Unreachable { endpoint, reason: fault.to_string() }
            }
        }
    }

    /// What a node's answer to a read means: an entry that is not there is one that was replaced or evicted.
    pub(crate) fn of_read(code: ErrorCode) -> Self {
        match code {
            ErrorCode::ObjectNotFound => TransferError::Stale,
            code => TransferError::Refused(code),
        }
    }
}

/// What a copy means that failed: the segment's own memory is there for as long as its ticket, so it is the caller's that is not.
pub(crate) fn of_copy(error: &CopyError) -> TransferError {
    match error {
        CopyError::Stopped => TransferError::Refused(ErrorCode::InvalidVersion),
        error => TransferError::BadMemory { reason: error.to_string() },
    }
}

/// Of all that is done to a connected socket, only bytes to or from memory that is not there answer so.
fn is_bad_address(error: &io::Error) -> bool {
    const EFAULT: i32 = 14;
    error.raw_os_error() == Some(EFAULT)
}
