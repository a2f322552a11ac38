use mooncake_types::ErrorCode;

/// What a call on a closed store is answered with.
pub(super) const CLOSED: ErrorCode = ErrorCode::UnavailableInCurrentStatus;
