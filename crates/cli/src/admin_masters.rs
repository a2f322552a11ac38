//! A client of the admin servers of all masters, of which one leads.

use mooncake_http::admin::{self, AdminRequest};
use mooncake_types::ErrorCode;
use serde::Deserialize;

/// Why a request to a master failed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ApiError {
    /// The master does not answer, or does not lead.
    #[error("{0}")]
    Absent(String),
    #[error("the master refused: {reason}")]
    Refused { code: Option<ErrorCode>, reason: String },
    /// The answer is not that of a master.
    #[error("{0}")]
    Strange(String),
}

impl ApiError {
    pub(crate) fn is(&self, wanted: ErrorCode) -> bool {
        matches!(self, Self::Refused { code: Some(code), .. } if *code == wanted)
    }

    /// Replaces the reason of a refusal that has this code.
    pub(crate) fn explained(self, wanted: ErrorCode, meaning: impl FnOnce() -> String) -> Self {
        match self.is(wanted) {
            true => Self::Refused { code: Some(wanted), reason: meaning() },
            false => self,
        }
    }
}

#[derive(Deserialize)]
struct Refusal {
    error_code: i32,
    error_message: String,
}

/// A part of the answer to `/health`.
#[derive(Deserialize)]
struct Health {
    /// `leader` or `standby`.
    role: String,
}

/// The admin servers of all masters. One of the masters leads.
#[derive(Debug)]
pub(crate) struct Masters {
    addresses: Vec<String>,
    /// The index of the server that answered last.
    current: usize,
    /// The token of the masters; empty if they have none.
    auth_token: String,
}

impl Masters {
    pub(crate) fn at(addresses: &[String], auth_token: String) -> Masters {
        Masters { addresses: addresses.to_vec(), current: 0, auth_token }
    }

    /// Asks each master in turn until one leads and answers. Begins with the server that answered last.
    pub(crate) fn ask<T: for<'de> Deserialize<'de>>(
        &mut self,
        method: &str,
        path: &str,
        body: &str,
    ) -> Result<T, ApiError> {
        let mut last = ApiError::Absent("no address of a master is given".to_owned());
        for _ in 0..self.addresses.len() {
            let asked = AdminRequest { method, path, body, auth_token: &self.auth_token };
            last = match ask(&self.addresses[self.current], &asked) {
                Err(error @ ApiError::Absent(_)) => error,
                answer => return answer,
            };
            self.current = (self.current + 1) % self.addresses.len();
        }
        Err(last)
    }

    /// Asks each master in turn, beginning with the one that answered last, until `read` finds what it looks for in the
    /// text of an answer. `None` if all answered, and none had it.
    pub(crate) fn find<T>(
        &mut self,
        asked: &AdminRequest<'_>,
        mut read: impl FnMut(&str) -> Result<Option<T>, ApiError>,
    ) -> Result<Option<T>, ApiError> {
        let mut absent = None;
        for _ in 0..self.addresses.len() {
            let asked = AdminRequest { auth_token: &self.auth_token, ..*asked };
            match text(&self.addresses[self.current], &asked) {
                Ok(text) => {
                    let found = read(&text)?;
                    if found.is_some() {
                        return Ok(found);
                    }
                }
                Err(error @ ApiError::Absent(_)) => absent = Some(error),
                Err(error) => return Err(error),
            }
            self.current = (self.current + 1) % self.addresses.len();
        }
        absent.map_or(Ok(None), Err)
    }

    /// What the leader says at this path, and the address of its admin server.
    pub(crate) fn ask_leader<T: for<'de> Deserialize<'de>>(
        &mut self,
        path: &str,
    ) -> Result<(String, T), ApiError> {
        // Some paths are answered by standbys, too; this one by all, and it says who leads.
        let mut last = ApiError::Absent("no master leads".to_owned());
        for address in self.addresses.clone() {
            let asked = AdminRequest { method: "GET", path: "/health", ..AdminRequest::default() };
            match ask::<Health>(&address, &asked) {
                Ok(health) if health.role == "leader" => {
                    let answer = ask(&address, &AdminRequest { path, ..asked })?;
                    return Ok((address, answer));
                }
                Ok(_) => {}
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

/// Percent-encodes a name for the query of a path.
pub(crate) fn encoded(name: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let encode = |byte: u8| match is_plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    name.bytes().map(encode).collect()
}

/// Asks one admin server, which answers with JSON.
pub(crate) fn ask<T: for<'de> Deserialize<'de>>(
    address: &str,
    asked: &AdminRequest<'_>,
) -> Result<T, ApiError> {
    serde_json::from_str(&text(address, asked)?).map_err(|error| {
        let place = format!("http://{address}{}", asked.path);
        ApiError::Strange(format!("{place} answered what is not expected: {error}"))
    })
}

/// Asks one admin server.
fn text(address: &str, asked: &AdminRequest<'_>) -> Result<String, ApiError> {
    let (status, text) =
        admin::call(address, asked).map_err(|error| ApiError::Absent(error.to_string()))?;
    match status {
        200 => Ok(text),
        401 => Err(ApiError::Refused {
            code: None,
            reason: format!("{address} wants the token of the pool: give MOONCAKE_AUTH_TOKEN_FILE"),
        }),
        503 => Err(ApiError::Absent(format!("the master at {address} does not lead"))),
        status => {
            let refusal = serde_json::from_str::<Refusal>(&text).ok();
            let code = refusal.as_ref().and_then(|it| ErrorCode::from_number(it.error_code));
            let reason = match refusal {
                Some(refusal) => refusal.error_message,
                // An RPC port answers with a text that names the admin server.
                None => format!("HTTP status {status}: {}", text.trim()),
            };
            Err(ApiError::Refused { code, reason })
        }
    }
}
