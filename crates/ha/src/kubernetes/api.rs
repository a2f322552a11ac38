use std::fmt;
use std::time::Duration;

use super::KubernetesAccess;
use super::object::Object;
use super::server::{ApiServer, refusal};
use crate::http::HttpReply;
use crate::{AddressError, CoordinatorError};

/// One Lease object of an API server.
pub(super) struct Api {
    server: ApiServer,
    /// The path of all leases of the namespace.
    path: String,
    pub(super) namespace: String,
    pub(super) name: String,
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
        Ok(Self {
            server: ApiServer::new(access, within)?,
            path: format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
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
        let answer = self.send("GET", &self.own_path(), None)?;
        match answer.status {
            200 => self.parse(&answer).map(Some),
            404 => Ok(None),
            _ => Err(self.refused(&answer)),
        }
    }

    /// Creates the object.
    pub(super) fn create(&self, object: &Object) -> Result<Stored, CoordinatorError> {
        let answer = self.send("POST", &self.path, Some(object))?;
        match answer.status {
            200..=202 => self.parse(&answer).map(Stored::Done),
            409 => Ok(Stored::Outdated),
            _ => Err(self.refused(&answer)),
        }
    }

    /// Replaces the object, if its version is the one that `object` names.
    pub(super) fn replace(&self, object: &Object) -> Result<Stored, CoordinatorError> {
        let answer = self.send("PUT", &self.own_path(), Some(object))?;
        match answer.status {
            200 | 201 => self.parse(&answer).map(Stored::Done),
            404 | 409 => Ok(Stored::Outdated),
            _ => Err(self.refused(&answer)),
        }
    }

    fn own_path(&self) -> String {
        format!("{}/{}", self.path, self.name)
    }

    fn send(
        &self,
        method: &str,
        path: &str,
        object: Option<&Object>,
    ) -> Result<HttpReply, CoordinatorError> {
        let answer = self.server.send(method, path, object.map(Object::json));
        answer.map_err(|reason| self.failed(reason))
    }

    fn parse(&self, answer: &HttpReply) -> Result<Object, CoordinatorError> {
        Object::parse(&answer.body).map_err(|reason| self.failed(reason))
    }

    fn refused(&self, answer: &HttpReply) -> CoordinatorError {
        self.failed(refusal(answer, "get, create and update of leases"))
    }
}
