use std::path::PathBuf;
use std::time::Duration;

use mooncake_ha::KubernetesAccess;

/// The folder of a single master's membership record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateDir {
    /// The folder, made if it is missing. The record lies below it, in folders named after the cluster and the RPC
    /// port.
    pub folder: PathBuf,
    /// Whether the master ends if it cannot write there. Otherwise it warns, and the record ends with the master.
    pub is_required: bool,
}

/// The pod of a master, which gets a label while the master leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodConfig {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// How to reach the API server.
    pub access: KubernetesAccess,
}

/// How a master becomes the leader, and where the membership record is kept. The record is all that a later leader
/// must know besides the nodes' ledgers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeadershipConfig {
    /// There is no other master.
    Alone {
        /// Where the record is kept. Without a folder, the record ends with the master.
        state_dir: Option<StateDir>,
    },
    /// One of several, elected by a coordinator that keeps the record too.
    Elected {
        /// The coordinator: `etcd://host:port;host:port`, `redis://host:port`, `k8s://namespace/name` or
        /// `file:///folder`.
        coordinator: String,
        /// How long a silent leader counts as alive; at least a second.
        ttl: Duration,
        /// How to reach the API server of Kubernetes, if that is the coordinator.
        kubernetes: Option<KubernetesAccess>,
    },
}

impl Default for LeadershipConfig {
    fn default() -> Self {
        Self::Alone { state_dir: None }
    }
}
