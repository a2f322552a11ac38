use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use mooncake_types::ErrorCode;
use serde::Serialize;

use crate::ask::NotServing;

/// The body of every error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Body {
    success: bool,
    error_code: i32,
    error_message: String,
}

/// An HTTP request that was not fulfilled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    status: StatusCode,
    code: ErrorCode,
    message: String,
}

impl Failure {
    /// The request is invalid.
    pub(super) fn bad_request(message: impl Into<String>) -> Failure {
        let message = message.into();
        Failure { status: StatusCode::BAD_REQUEST, code: ErrorCode::InvalidParams, message }
    }

    /// The request does not carry the pool's token.
    pub(super) fn unauthorized(message: impl Into<String>) -> Failure {
        let (status, code) = (StatusCode::UNAUTHORIZED, ErrorCode::IllegalClient);
        Failure { status, code, message: message.into() }
    }

    /// The token does not allow it.
    pub(super) fn denied(message: String) -> Failure {
        Failure { status: StatusCode::FORBIDDEN, code: ErrorCode::PermissionDenied, message }
    }

    /// The object, segment or job does not exist.
    pub(super) fn not_found(code: ErrorCode, message: impl Into<String>) -> Failure {
        Failure { status: StatusCode::NOT_FOUND, code, message: message.into() }
    }

    /// The path does not take this method.
    pub(super) fn wrong_method(message: String) -> Failure {
        let status = StatusCode::METHOD_NOT_ALLOWED;
        Failure { status, code: ErrorCode::InvalidParams, message }
    }

    /// The current state does not allow this.
    pub(super) fn conflict(code: ErrorCode, message: impl Into<String>) -> Failure {
        Failure { status: StatusCode::CONFLICT, code, message: message.into() }
    }

    /// It was done, but not all nodes have confirmed it in time.
    pub(super) fn unconfirmed(code: ErrorCode, message: impl Into<String>) -> Failure {
        Failure { status: StatusCode::GATEWAY_TIMEOUT, code, message: message.into() }
    }

    /// Too many ask for it.
    pub(super) fn busy(message: String) -> Failure {
        let (status, code) =
            (StatusCode::SERVICE_UNAVAILABLE, ErrorCode::UnavailableInCurrentStatus);
        Failure { status, code, message }
    }

    /// The master cannot do this.
    pub(super) fn internal(code: ErrorCode, message: impl Into<String>) -> Failure {
        Failure { status: StatusCode::INTERNAL_SERVER_ERROR, code, message: message.into() }
    }
}

impl From<NotServing> for Failure {
    fn from(_: NotServing) -> Failure {
        Failure {
            status: StatusCode::SERVICE_UNAVAILABLE,
            code: ErrorCode::UnavailableInCurrentMode,
            message: "service plane is not active".to_owned(),
        }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let body =
            Body { success: false, error_code: self.code.number(), error_message: self.message };
        (self.status, Json(body)).into_response()
    }
}
