//! `/metadata` and `/health`. Replies are plain text, with the words of the C++ package.

use std::sync::Arc;

use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request, State as Extract};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use mooncake_http::{Content, Limits};
use serde::Deserialize;
use thiserror::Error;

use super::MetadataEntries;
use super::entries::{Bounds, Put, Refused};
use crate::admin::named_token;

/// The limits of the server. A body may be as long as the longest value.
pub(crate) fn limits() -> Limits {
    Limits { body_bytes: Bounds::default().value_bytes, ..Limits::default() }
}

/// The routes of the server. Requests for values need the token, unless that is empty.
pub(crate) fn router(registry: MetadataEntries, auth_token: &str) -> Router {
    let auth_token: Arc<str> = auth_token.into();
    Router::new()
        .route("/metadata", get(look_up).put(publish).delete(forget))
        .route_layer(from_fn_with_state(auth_token, authorize))
        .route("/health", get(async || "OK"))
        .with_state(registry)
}

async fn authorize(
    Extract(token): Extract<Arc<str>>,
    request: Request,
    next: Next,
) -> Result<Response, Failure> {
    let is_right = |named: &[u8]| mooncake_wire::same_secret(named, token.as_bytes());
    match token.is_empty() || named_token(request.headers()).is_some_and(is_right) {
        true => Ok(next.run(request).await),
        false => Err(Failure::Unauthorized),
    }
}

/// The parameters behind the question mark.
#[derive(Debug, Default, Deserialize)]
struct Parameters {
    #[serde(default)]
    key: String,
}

type Parsed = Result<Query<Parameters>, QueryRejection>;

/// Why a request was not fulfilled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
enum Failure {
    #[error("unauthorized: the header must be 'Authorization: Bearer TOKEN'")]
    Unauthorized,
    #[error("Missing key parameter")]
    NoKey,
    #[error("metadata not found")]
    NotFound,
    #[error(transparent)]
    Refused(#[from] Refused),
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = match self {
            Self::NoKey | Self::Refused(Refused::Duplicate | Refused::KeyTooLong { .. }) => {
                StatusCode::BAD_REQUEST
            }
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::Refused(Refused::ValueTooLong { .. }) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Refused(Refused::TooManyKeys { .. } | Refused::Full { .. }) => {
                StatusCode::INSUFFICIENT_STORAGE
            }
        };
        (status, self.to_string()).into_response()
    }
}

/// The key that a request is about.
fn key_of(parsed: Parsed) -> Result<String, Failure> {
    match parsed {
        Ok(Query(Parameters { key })) if !key.is_empty() => Ok(key),
        _ => Err(Failure::NoKey),
    }
}

/// `GET /metadata?key=K`: the value of a key.
async fn look_up(
    Extract(registry): Extract<MetadataEntries>,
    parsed: Parsed,
) -> Result<impl IntoResponse, Failure> {
    let value = registry.lock().get(&key_of(parsed)?).ok_or(Failure::NotFound)?;
    Ok(([(CONTENT_TYPE, "application/json")], value))
}

/// `PUT /metadata?key=K`: sets the value of a key to the body.
async fn publish(
    Extract(registry): Extract<MetadataEntries>,
    parsed: Parsed,
    Content(value): Content,
) -> Result<&'static str, Failure> {
    let key = key_of(parsed)?;
    match registry.lock().put(&key, &value)? {
        Put::Updated => Ok("metadata updated"),
        Put::Unchanged => Ok("metadata unchanged"),
    }
}

/// `DELETE /metadata?key=K`: forgets a key.
async fn forget(
    Extract(registry): Extract<MetadataEntries>,
    parsed: Parsed,
) -> Result<&'static str, Failure> {
    match registry.lock().remove(&key_of(parsed)?) {
        true => Ok("metadata deleted"),
        false => Err(Failure::NotFound),
    }
}
