use mooncake_types::{Epoch, ErrorCode};

/// Why a connection could not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DialError {
    /// No process answered there.
    #[error("{address}: {reason}")]
    Unreachable { address: String, reason: String },
    /// A master answered, but does not lead.
    #[error("{address}: {message}")]
    Standby { address: String, message: String },
    /// A process answered and refused this client.
    #[error("{address} refused: {message}")]
    Refused { address: String, code: ErrorCode, message: String },
    /// A master answered whose epoch is not credible.
    #[error("{address}: {why}")]
    Incredible { address: String, why: Incredible },
}

/// A master named an epoch that no leader can have. A node that obeyed it would refuse all other masters from then
/// on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "it leads under epoch {epoch}, far above {known}: it is not obeyed. If it is the right master, restart this process"
)]
pub(crate) struct Incredible {
    pub(super) epoch: Epoch,
    pub(super) known: Epoch,
}
