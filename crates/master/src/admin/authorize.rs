//! Requests that change something or name keys and nodes need a token of the pool, if it has one. If its tokens have
//! roles, counters need one, too.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::middleware::Next;
use axum::response::Response;
use mooncake_connection::Roles;
use mooncake_kv_events::Passwords;
use mooncake_types::{Access, Rights};
use mooncake_wire::Expected;

use super::error::Failure;
use crate::config::Config;

/// The tokens of the pool.
#[derive(Clone)]
pub(crate) struct Guard {
    auth_token: Arc<str>,
    roles: Option<Roles>,
}

/// What the sender of a request may do: everything, if it needs no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Granted(pub(super) Rights);

impl Guard {
    pub(crate) fn of(config: &Config) -> Self {
        Self { auth_token: config.auth_token.as_str().into(), roles: config.roles.clone() }
    }

    /// Whether requests for this need a token.
    fn asks_for(&self, needed: Needed) -> bool {
        let asks = self.roles.is_some();
        asks || (needed != Needed::Counters && !self.auth_token.is_empty())
    }

    /// The test of the passwords of those who follow KV events; `None` if nobody needs one.
    pub(crate) fn passwords(self) -> Option<Passwords> {
        let needed = Needed::Right(Rights::READ);
        self.asks_for(needed).then(|| -> Passwords {
            Box::new(move |token| {
                let access = self.access_of(token);
                access.is_some_and(|it| needed.is_in(it.rights()) && it.is_for_all_tenants())
            })
        })
    }

    fn access_of(&self, token: &[u8]) -> Option<Access> {
        let tokens = self.roles.as_ref().map(Roles::tokens);
        let roles = tokens.as_deref().unwrap_or_default();
        Expected { cluster_id: "", auth_token: &self.auth_token, roles }.access_of(token)
    }
}

/// What a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needed {
    /// To see counters.
    Counters,
    Right(Rights),
}

impl Needed {
    fn right(self) -> Rights {
        match self {
            Needed::Counters => Rights::METRICS,
            Needed::Right(right) => right,
        }
    }

    /// Who may change the pool may also see it.
    fn is_in(self, rights: Rights) -> bool {
        rights.include(self.right()) || rights.include(Rights::ADMIN)
    }
}

/// Admits a request with the header `Authorization: Bearer TOKEN`, if the token gives what it needs, or any request if
/// no token is asked for. The handler learns whose keys the token may name.
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
        let access = guard
            .access_of(named)
            .ok_or_else(|| Failure::unauthorized("the auth token is not that of this master"))?;
        if !needed.is_in(access.rights()) {
            let needed = needed.right();
            return Err(Failure::denied(format!(
                "the auth token allows {access}, and not {needed}"
            )));
        }
        granted =
            if access.rights().include(Rights::ADMIN) { Rights::ALL } else { access.rights() };
        request.extensions_mut().insert(access);
    }
    request.extensions_mut().insert(Granted(granted));
    Ok(next.run(request).await)
}

/// The token that a request names.
pub(crate) fn named(headers: &HeaderMap) -> Option<&[u8]> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.as_bytes().split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}
