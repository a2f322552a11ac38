use std::sync::Arc;
use std::time::Duration;

use mooncake_calls::{Side, Watch};
use mooncake_connection::Roles;
use mooncake_tls::Tls;
use mooncake_types::{BusyWait, Secret};

use super::served::Served;
use crate::{FarLender, SealKeys};

/// How a [`DataServer`](crate::DataServer) behaves.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The pool that the node belongs to; clients of another are refused.
    pub cluster_id: String,
    /// The secret that members of the pool share; empty if there is none.
    pub auth_token: Secret,
    /// Tokens of peers that may do less than those that know that secret.
    pub roles: Option<Roles>,
    /// Most connections at a time; further ones are refused.
    pub max_connections: usize,
    /// How long to poll for the next request before blocking (see [`mooncake_memory::Watch`]); zero: not at all.
    pub busy_poll: Duration,
    /// Whether to offer a Unix socket to processes of the same user on this host, and to share memory with them.
    pub local_socket: bool,
    /// By which peers of other hosts reach the segments one-sided, if they do.
    pub far: Option<Arc<FarLender>>,
    /// The certificates of this process, if connections between hosts are encrypted.
    pub tls: Option<Tls>,
    /// The keys of the master's seals. With them, peers get and change only what the master has given to them.
    pub seals: Option<Arc<SealKeys>>,
    /// Where the server counts what it sends and receives.
    pub served: Arc<Served>,
    /// Logs requests that were slow to be served; none by default.
    pub calls: Arc<Watch>,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            cluster_id: String::new(),
            auth_token: Secret::default(),
            roles: None,
            max_connections: 1024,
            busy_poll: BusyWait::DEFAULT_LIMIT,
            local_socket: true,
            far: None,
            tls: None,
            seals: None,
            served: Arc::default(),
            calls: Arc::new(Watch::new(Side::Node, Duration::ZERO)),
        }
    }
}
