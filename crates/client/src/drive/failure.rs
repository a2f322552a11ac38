use std::mem::Discriminant;
use std::sync::Arc;
use std::time::Instant;

use mooncake_calls::current;
use mooncake_ops::MoveError;
use mooncake_transfer::TransferError;
use mooncake_types::{ErrorCode, LogLimiter};

/// Whether the node did not answer. A node that refused or sent a wrong answer can be reached.
pub(super) fn is_out_of_reach<T>(result: &Result<T, TransferError>) -> bool {
    use TransferError::{Deserted, TimedOut, Unreachable};
    matches!(result, Err(Unreachable { .. } | Deserted { .. } | TimedOut { .. }))
}

/// What a failed transfer means to an operation.
pub(super) fn to_move_error(error: TransferError) -> MoveError {
    log_transfer(&error);
    match error {
        TransferError::Stale => MoveError::Stale,
        // The node has no connection left for this client. That says nothing about the range.
        TransferError::Refused(ErrorCode::UnavailableInCurrentStatus) => MoveError::Broken,
        TransferError::Refused(code) => MoveError::Refused(code),
        TransferError::BadMemory { .. } => MoveError::Refused(ErrorCode::InvalidParams),
        TransferError::Unreachable { .. }
        | TransferError::Deserted { .. }
        | TransferError::TimedOut { .. }
        | TransferError::Corrupt { .. }
        | TransferError::Protocol { .. } => MoveError::Broken,
    }
}

/// Operations handle moved ranges and refusals themselves, so these are logged for debugging. Other failures are
/// warnings.
fn log_transfer(error: &TransferError) {
    static FAILED: LogLimiter<Cause> = LogLimiter::new();
    match error {
        TransferError::Stale | TransferError::Refused(_) => {
            tracing::debug!(%error, "a range was not moved");
        }
        _ => {
            if let Some(further) = FAILED.admit(cause(error), Instant::now()) {
                let request = current().map(tracing::field::display);
                tracing::warn!(request, %error, further, "a range was not moved");
            }
        }
    }
}

/// The kind of failure, and the endpoint of the node.
type Cause = (Discriminant<TransferError>, Option<Arc<str>>);

fn cause(error: &TransferError) -> Cause {
    let endpoint = match error {
        TransferError::Unreachable { endpoint, .. }
        | TransferError::Deserted { endpoint }
        | TransferError::TimedOut { endpoint }
        | TransferError::Corrupt { endpoint }
        | TransferError::Protocol { endpoint, .. } => Some(Arc::clone(endpoint)),
        TransferError::Stale | TransferError::Refused(_) | TransferError::BadMemory { .. } => None,
    };
    (std::mem::discriminant(error), endpoint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_transfer_means_that_the_node_the_route_or_the_call_is_wrong() {
        let endpoint = || "node:1".into();
        let reason = || "gone".to_owned();
        for (error, meaning) in [
            (TransferError::Stale, MoveError::Stale),
            (
                TransferError::Refused(ErrorCode::InvalidVersion),
                MoveError::Refused(ErrorCode::InvalidVersion),
            ),
            (TransferError::Refused(ErrorCode::UnavailableInCurrentStatus), MoveError::Broken),
            (
                TransferError::BadMemory { reason: reason() },
                MoveError::Refused(ErrorCode::InvalidParams),
            ),
            (
                TransferError::Unreachable { endpoint: endpoint(), reason: reason() },
                MoveError::Broken,
            ),
            (TransferError::Deserted { endpoint: endpoint() }, MoveError::Broken),
            (TransferError::TimedOut { endpoint: endpoint() }, MoveError::Broken),
            (TransferError::Corrupt { endpoint: endpoint() }, MoveError::Broken),
            (TransferError::Protocol { endpoint: endpoint(), reason: reason() }, MoveError::Broken),
        ] {
            assert_eq!(to_move_error(error.clone()), meaning, "{error:?}");
        }
    }
}
