use std::path::PathBuf;
use std::time::Duration;

use mooncake_ha::KubernetesAccess;

/// How a master becomes the leader, and where the membership record is kept: what a later leader must know, besides what
/// the nodes hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeadershipConfig {
    /// There is no other master.
    Alone {
        /// The folder of the record, made if it is missing; the record lies in it under the names of the cluster and of
        /// the RPC port. Without one, the record ends with the master.
        state_dir: Option<PathBuf>,
    },
    /// One of several, elected by a coordinator that keeps the record too.
    Elected {
        /// The coordinator: `etcd://host:port;host:port`, `redis://host:port`, `k8s://namespace/name` or `file:///folder`.
        coordinator: String,
        /// How long a leader that is not heard of counts as alive; at least a second.
        ttl: Duration,
        /// How the API server of Kubernetes is reached, if it is to elect.
        kubernetes: Option<KubernetesAccess>,
    },
}

impl Default for LeadershipConfig {
    fn default() -> Self {
        Self::Alone { state_dir: None }
    }
}
