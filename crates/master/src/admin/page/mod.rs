//! The page of the pool: `GET /` is one HTML file without data, and `GET /api/v1/live` streams the data to it, and to
//! `mooncake top`.
//!
//! Every two seconds a [`Frame`](frames::Frame) of the pool is made, if anybody looks, and each viewer gets the same
//! bytes ([`viewers`]). So ten viewers ask the owner as much as one.

mod frames;
mod told;
mod viewers;

use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::response::IntoResponse;
use mooncake_types::ErrorCode;

use super::error::Failure;

pub(crate) use frames::Frames;
pub(super) use viewers::live;

const PAGE: &str = include_str!("page.html");
/// What stands in the page in the place of a number that each answer draws anew. Its script and its style run because
/// they bear it; nothing that comes from the pool can.
const NONCE: &str = "@NONCE@";

/// `GET /`: the page, without data.
pub(super) async fn page() -> Result<impl IntoResponse, Failure> {
    let random = || {
        getrandom::u64().map_err(|error| {
            Failure::internal(ErrorCode::InternalError, format!("no random number: {error}"))
        })
    };
    let nonce = format!("{:016x}{:016x}", random()?, random()?);
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; img-src data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8".to_owned()),
        (CONTENT_SECURITY_POLICY, policy),
        (X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        (REFERRER_POLICY, "no-referrer".to_owned()),
        (CACHE_CONTROL, "no-store".to_owned()),
    ];
    Ok((headers, PAGE.replace(NONCE, &nonce)))
}
