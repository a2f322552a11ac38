use std::io;
use std::sync::Arc;

use mooncake_connection::Fault;
use mooncake_device::CopyError;
use mooncake_types::ErrorCode;
use thiserror::Error;

/// Why one range was not moved. When a call returns it, this process moves no more bytes of the range.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TransferError {
    /// The node does not hold that version there, or dropped it while the bytes were read. Look the object up again.
    #[error("the node no longer holds that version in that range")]
    Stale,
    /// The node, or its data port, refused.
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
    /// No process listens there: the host is up, and refused the connection.
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
        /// The system's message.
        reason: String,
    },
}

impl TransferError {
    /// The error of every unfinished operation when its connection ends with this fault.
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

    /// The error of a read that a node refused. A missing entry was replaced, removed or evicted.
    pub(crate) fn of_read(code: ErrorCode) -> Self {
        match code {
            ErrorCode::ObjectNotFound => TransferError::Stale,
            code => TransferError::Refused(code),
        }
    }
}

/// The error of a copy that failed. The segment's memory stays mapped while its ticket exists, so the caller's is at
/// fault.
pub(crate) fn of_copy(error: &CopyError) -> TransferError {
    match error {
        CopyError::Stopped => TransferError::Refused(ErrorCode::InvalidVersion),
        error => TransferError::BadMemory { reason: error.to_string() },
    }
}

/// On a connected socket, only inaccessible memory causes this error.
fn is_bad_address(error: &io::Error) -> bool {
    const EFAULT: i32 = 14;
    error.raw_os_error() == Some(EFAULT)
}
