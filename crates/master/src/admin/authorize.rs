//! Requests that change something, and the data of the page, need a token of the pool, if it has one. If its tokens have
//! roles, most others do, too.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::middleware::Next;
use axum::response::Response;
use mooncake_connection::Roles;
use mooncake_types::Rights;
use mooncake_wire::Expected;

use super::error::Failure;
use crate::config::Config;

/// The tokens of the pool.
#[derive(Clone)]
pub(crate) struct Guard {
    auth_token: Arc<str>,
    roles: Option<Roles>,
}

/// What a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Needed {
    pub(super) right: Rights,
    /// Whether it needs a token of a pool without roles, too.
    pub(super) always: bool,
}

/// What the sender of a request may do: everything, if it needs no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Granted(pub(super) Rights);

impl Guard {
    pub(crate) fn of(config: &Config) -> Self {
        Self { auth_token: config.auth_token.as_str().into(), roles: config.roles.clone() }
    }

    /// Whether such a request needs a token.
    fn asks_for(&self, needed: Needed) -> bool {
        self.roles.is_some() || (needed.always && !self.auth_token.is_empty())
    }

    fn rights_of(&self, token: &[u8]) -> Option<Rights> {
        let tokens = self.roles.as_ref().map(Roles::tokens);
        let roles = tokens.as_deref().unwrap_or_default();
        Expected { cluster_id: "", auth_token: &self.auth_token, roles }.rights_of(token)
    }
}

/// Admits a request with the header `Authorization: Bearer TOKEN`, if the token gives this right, or any request if
/// none is asked for. Who may change the pool may also see it.
pub(super) async fn authorize(
    State((guard, needed)): State<(Guard, Needed)>,
    mut request: Request,
    next: Next,
) -> Result<Response, Failure> {
    let mut granted = Rights::ALL;
    if guard.asks_for(needed) {
        let named = named(request.headers()).ok_or_else(|| {
            Failure::unauthorized(
                "this master has an auth token: send it as the header 'Authorization: Bearer TOKEN'",
            )
        })?;
        let rights = guard
            .rights_of(named)
            .ok_or_else(|| Failure::unauthorized("the auth token is not that of this master"))?;
        let needed = needed.right;
        if !rights.include(needed) && !rights.include(Rights::ADMIN) {
            return Err(Failure::denied(format!(
                "the auth token allows {rights}, and not {needed}"
            )));
        }
        granted = if rights.include(Rights::ADMIN) { Rights::ALL } else { rights };
    }
    request.extensions_mut().insert(Granted(granted));
    Ok(next.run(request).await)
}

/// The token that a request names.
pub(crate) fn named(headers: &HeaderMap) -> Option<&[u8]> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.as_bytes().split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}
