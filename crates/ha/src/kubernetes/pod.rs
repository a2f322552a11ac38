use std::fmt;
use std::time::Duration;

use serde_json::json;

use super::KubernetesAccess;
use super::server::{ApiServer, refusal};
use crate::location::is_kubernetes_name;
use crate::{AddressError, CoordinatorError};

/// The label of the leader's pod, as the C++ master sets it.
const LABEL: &str = "mooncake.io/store-role";
const LEADER: &str = "leader";

/// How long one request may take.
const WITHIN: Duration = Duration::from_secs(5);

/// The pod of a master. Its label says whether the master leads, for Services that select the leader.
pub struct Pod {
    server: ApiServer,
    namespace: String,
    name: String,
}

impl fmt::Debug for Pod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pod {}/{}", self.namespace, self.name)
    }
}

impl Pod {
    /// The pod with this name. Sends no request yet.
    ///
    /// # Errors
    /// A name is none, or `access` cannot be used.
    pub fn new(
        access: &KubernetesAccess,
        namespace: &str,
        name: &str,
    ) -> Result<Self, AddressError> {
        if let Some(wrong) = [namespace, name].into_iter().find(|text| !is_kubernetes_name(text)) {
            let reason = format!("{wrong:?} is no name of a namespace or pod");
            return Err(AddressError::Kubernetes { reason });
        }
        let server = ApiServer::new(access, WITHIN)?;
        Ok(Self { server, namespace: namespace.to_owned(), name: name.to_owned() })
    }

    /// Adds the leader's label to the pod, or removes it.
    ///
    /// # Errors
    /// The API server did not answer, or refused.
    pub fn show_leader(&self, leads: bool) -> Result<(), CoordinatorError> {
        let path = format!("/api/v1/namespaces/{}/pods/{}", self.namespace, self.name);
        // In a merge patch, null removes a key.
        let patch = json!({"metadata": {"labels": {LABEL: leads.then_some(LEADER)}}});
        let failed = |reason| CoordinatorError::unavailable(format!("{self:?}"), reason);
        let answer = self.server.send("PATCH", &path, Some(&patch)).map_err(failed)?;
        match answer.status {
            200 => Ok(()),
            _ => Err(failed(refusal(&answer, "patch of pods"))),
        }
    }
}
