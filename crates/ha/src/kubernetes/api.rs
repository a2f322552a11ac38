use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use super::KubernetesAccess;
use super::object::Object;
use crate::http::{Ask, HttpAgent, HttpReply};
use crate::{AddressError, CoordinatorError};

/// Longest file of a token, in bytes.
const MAX_TOKEN_BYTES: usize = 64 << 10;

/// One Lease object of an API server.
pub(super) struct Api {
    agent: HttpAgent,
    /// The URL of all leases of the namespace.
    url: String,
    pub(super) namespace: String,
    pub(super) name: String,
    token_path: Option<PathBuf>,
    within: Duration,
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "k8s://{}/{}", self.namespace, self.name)
    }
}

/// The outcome of a write.
#[derive(Debug)]
pub(super) enum Stored {
    /// The object as it is now.
    Done(Object),
    /// The object was changed, created or removed meanwhile.
    Outdated,
}

impl Api {
    pub(super) fn new(
        access: &KubernetesAccess,
        namespace: &str,
        name: &str,
        within: Duration,
    ) -> Result<Self, AddressError> {
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
        let base = access.url.trim_end_matches('/');
        if !base.starts_with("https://") && !base.starts_with("http://") {
            let reason = format!("{base:?} is no URL of a server");
            return Err(AddressError::Kubernetes { reason });
        }
        Ok(Self {
            agent,
            url: format!("{base}/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            token_path: access.token_path.clone(),
            within,
        })
    }

    pub(super) fn failed(&self, reason: impl ToString) -> CoordinatorError {
        CoordinatorError::unavailable(format!("{self:?}"), reason)
    }

    pub(super) fn corrupt(&self, reason: impl ToString) -> CoordinatorError {
        CoordinatorError::corrupt(format!("{self:?}"), reason)
    }

    /// The object, if there is one.
    pub(super) fn read(&self) -> Result<Option<Object>, CoordinatorError> {
        let url = format!("{}/{}", self.url, self.name);
        let answer = self.send("GET", url, None)?;
        match answer.status {
            200 => self.parse(&answer).map(Some),
            404 => Ok(None),
            _ => Err(self.refused(&answer)),
        }
    }

    /// Creates the object.
    pub(super) fn create(&self, object: &Object) -> Result<Stored, CoordinatorError> {
        let answer = self.send("POST", self.url.clone(), Some(object))?;
        match answer.status {
            200..=202 => self.parse(&answer).map(Stored::Done),
            409 => Ok(Stored::Outdated),
            _ => Err(self.refused(&answer)),
        }
    }

    /// Replaces the object, if its version is the one that `object` names.
    pub(super) fn replace(&self, object: &Object) -> Result<Stored, CoordinatorError> {
        let answer = self.send("PUT", format!("{}/{}", self.url, self.name), Some(object))?;
        match answer.status {
            200 | 201 => self.parse(&answer).map(Stored::Done),
            404 | 409 => Ok(Stored::Outdated),
            _ => Err(self.refused(&answer)),
        }
    }

    fn send(
        &self,
        method: &str,
        url: String,
        object: Option<&Object>,
    ) -> Result<HttpReply, CoordinatorError> {
        let token = self.token()?;
        let ask = Ask { method, url, body: object.map(Object::json), within: self.within };
        let bearer = token.map(|token| format!("Bearer {token}"));
        self.agent.send(&ask, bearer.as_deref()).map_err(|reason| self.failed(reason))
    }

    fn token(&self) -> Result<Option<String>, CoordinatorError> {
        let Some(path) = &self.token_path else { return Ok(None) };
        let text = crate::durable::read(path, MAX_TOKEN_BYTES)
            .and_then(|text| text.ok_or(std::io::ErrorKind::NotFound.into()))
            .map_err(|error| self.failed(format!("{}: {error}", path.display())))?;
        Ok(Some(String::from_utf8_lossy(&text).trim().to_owned()))
    }

    fn parse(&self, answer: &HttpReply) -> Result<Object, CoordinatorError> {
        Object::parse(&answer.body).map_err(|reason| self.failed(reason))
    }

    fn refused(&self, answer: &HttpReply) -> CoordinatorError {
        let hint = match answer.status {
            401 | 403 => "; the service account needs get, create and update of leases",
            _ => "",
        };
        self.failed(format!("the API server answered {}: {}{hint}", answer.status, answer.start()))
    }
}
