use std::time::Duration;

use mooncake_connection::Dialer;
use mooncake_tls::Tls;
use mooncake_types::{BusyWait, ClientId, Secret};
use mooncake_wire::{Hello, Role};

/// How a [`crate::TcpTransport`] behaves.
#[derive(Clone, Debug)]
pub struct TcpConfig {
    /// The pool that this process belongs to; nodes of another refuse it.
    pub cluster_id: String,
    /// The secret that members of the pool share; empty if there is none.
    pub auth_token: Secret,
    /// The id of this process.
    pub client: ClientId,
    /// Most connections to one node. A call uses one of them; further calls wait.
    pub lanes_per_peer: usize,
    /// Most payload bytes that one connection requests or sends ahead of the reply that it waits for.
    pub bytes_in_flight: u64,
    /// How long connecting and shaking hands may take.
    pub connect_timeout: Duration,
    /// How long one call may take, plus a second for each 16 MiB that it moves.
    pub transfer_timeout: Duration,
    /// How long to poll for a reply before blocking (see [`mooncake_memory::Watch`]); zero: not at all.
    pub busy_poll: Duration,
    /// How long a call waits while no byte moves. A slow transfer that moves goes on.
    pub silence_timeout: Duration,
    /// The certificates of this process, if connections between hosts are encrypted.
    pub tls: Option<Tls>,
    /// Whether bytes that came by shared memory or one-sided are checked, too. What comes by TCP always is.
    pub verify_reads: bool,
}

impl Default for TcpConfig {
    fn default() -> Self {
        Self {
            cluster_id: String::new(),
            auth_token: Secret::default(),
            client: ClientId::default(),
            lanes_per_peer: 4,
            bytes_in_flight: 8 << 20,
            connect_timeout: Duration::from_secs(1),
            transfer_timeout: Duration::from_secs(30),
            busy_poll: BusyWait::DEFAULT_LIMIT,
            silence_timeout: Duration::from_secs(30),
            tls: None,
            verify_reads: false,
        }
    }
}

impl TcpConfig {
    /// The dialer of its connections.
    pub(crate) fn dialer(&self) -> Dialer {
        let hello = Hello {
            cluster_id: self.cluster_id.clone(),
            auth_token: self.auth_token.clone(),
            ..Hello::new(Role::Client, self.client)
        };
        Dialer { busy_poll: self.busy_poll, tls: self.tls.clone(), ..Dialer::new(hello) }
    }
}
