use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use super::KubernetesAccess;
use crate::AddressError;
use crate::http::{Ask, HttpAgent, HttpReply};

/// Longest file of a token, in bytes.
const MAX_TOKEN_BYTES: usize = 64 << 10;

/// An API server, and how this process authenticates there.
pub(super) struct ApiServer {
    agent: HttpAgent,
    url: String,
    token_path: Option<PathBuf>,
    within: Duration,
}

impl ApiServer {
    pub(super) fn new(access: &KubernetesAccess, within: Duration) -> Result<Self, AddressError> {
        let agent = match &access.certificate_path {
            None => HttpAgent::plain(),
            Some(path) => {
                let refuse = |reason: String| AddressError::Kubernetes {
                    reason: format!("{}: {reason}", path.display()),
                };
                let pem = fs::read(path).map_err(|error| refuse(error.to_string()))?;
                HttpAgent::trusting(&pem).map_err(refuse)?
            }
        };
        let url = access.url.trim_end_matches('/');
        if !url.starts_with("https://") && !url.starts_with("http://") {
            let reason = format!("{url:?} is no URL of a server");
            return Err(AddressError::Kubernetes { reason });
        }
        let token_path = access.token_path.clone();
        Ok(Self { agent, url: url.to_owned(), token_path, within })
    }

    /// Sends a request to a path of the server.
    ///
    /// # Errors
    /// No answer came in time, or the token cannot be read.
    pub(super) fn send(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<HttpReply, String> {
        let token = self.token()?;
        let ask = Ask { method, url: format!("{}{path}", self.url), body, within: self.within };
        let bearer = token.map(|token| format!("Bearer {token}"));
        self.agent.send(&ask, bearer.as_deref())
    }

    fn token(&self) -> Result<Option<String>, String> {
        let Some(path) = &self.token_path else { return Ok(None) };
        let text = crate::durable::read(path, MAX_TOKEN_BYTES)
            .and_then(|text| text.ok_or(std::io::ErrorKind::NotFound.into()))
            .map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Some(String::from_utf8_lossy(&text).trim().to_owned()))
    }
}

/// What an answer that is no success says. `rights` names what the service account needs for the request.
pub(super) fn refusal(answer: &HttpReply, rights: &str) -> String {
    let hint = match answer.status {
        401 | 403 => format!("; the service account needs {rights}"),
        _ => String::new(),
    };
    format!("the API server answered {}: {}{hint}", answer.status, answer.start())
}
