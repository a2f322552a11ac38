//! Requests that change something need the pool's token, if it has one. All others are free.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::middleware::Next;
use axum::response::Response;

use super::error::Failure;

/// Admits a request with the header `Authorization: Bearer TOKEN`, or any request if there is no token.
pub(super) async fn authorize(
    State(token): State<Arc<str>>,
    request: Request,
    next: Next,
) -> Result<Response, Failure> {
    if !token.is_empty() {
        let named = named(request.headers()).ok_or_else(|| {
            Failure::unauthorized(
                "this master has an auth token: send it as the header 'Authorization: Bearer TOKEN'",
            )
        })?;
        if !mooncake_wire::same_secret(named, token.as_bytes()) {
            return Err(Failure::unauthorized("the auth token is not that of this master"));
        }
    }
    Ok(next.run(request).await)
}

/// The token that a request names.
pub(crate) fn named(headers: &HeaderMap) -> Option<&[u8]> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.as_bytes().split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}
