use mooncake_types::ErrorCode;

/// The error of calls on a closed store.
pub(super) const CLOSED: ErrorCode = ErrorCode::UnavailableInCurrentStatus;
