use std::time::Duration;

use mooncake_calls::Watch;
use mooncake_connection::Roles;
use mooncake_otlp::Endpoint;
use mooncake_tls::Tls;
use mooncake_types::{BusyWait, Secret};

use crate::leadership::{LeadershipConfig, PodConfig};
use crate::tenants::QuotaSource;

/// Default for the most connections that a master serves at a time.
pub const DEFAULT_MAX_CONNECTIONS: usize = 16_384;

/// The address of the metadata server of transfer engines, and what it cleans up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetadataServer {
    /// Host name or address.
    pub host: String,
    /// Its port; 0: any free one.
    pub port: u16,
    /// The secret that requests must name as `Authorization: Bearer TOKEN`; empty: none.
    pub auth_token: Secret,
    /// The prefix of clients' keys, like `mooncake/`, if the entries of a dead client are to be removed. Its keys are
    /// this prefix, then `ram/` or `rpc_meta/`, then the name of a segment that it lent.
    pub cleanup_prefix: Option<String>,
}

/// Where KV events are published, and what they contain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvEvents {
    /// Host and port for subscribers; port 0: any free one.
    pub subscribers: (String, u16),
    /// Host and port for subscribers that ask for missed events, if they may.
    pub replays: Option<(String, u16)>,
    /// The pool's name in each event.
    pub backend_id: String,
    /// Whether events also have the field names of vLLM's own events.
    pub emit_legacy_compat: bool,
    /// Whether events contain keys, and not only the numbers that some keys are.
    pub emit_object_key: bool,
    /// Most events that wait to be published.
    pub queue_capacity: usize,
}

/// The configuration of a master.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Host name or address of the RPC port.
    pub rpc_address: String,
    /// The RPC port; 0: any free one.
    pub rpc_port: u16,
    /// Host name or address of the admin HTTP server.
    pub metrics_host: String,
    /// The port of the admin HTTP server; 0: any free one.
    pub metrics_port: u16,
    /// The metadata server of transfer engines; by default there is none.
    pub metadata_server: Option<MetadataServer>,
    /// Where KV events are published; by default nowhere.
    pub kv_events: Option<KvEvents>,
    /// Clients that name another cluster are refused.
    pub cluster_id: String,
    /// The secret that clients must send; empty: none.
    pub auth_token: Secret,
    /// Tokens of members that may do less than those that know that secret.
    pub roles: Option<Roles>,
    /// The certificates of this process, if connections between hosts are encrypted.
    pub tls: Option<Tls>,
    /// Whether replies leave at once, however small they are.
    pub tcp_no_delay: bool,
    /// A connection that sent nothing for this long is closed, in milliseconds; 0: never.
    pub idle_timeout_ms: u64,
    /// A connection that sent a part of a frame and nothing for this long is closed, in milliseconds.
    pub frame_timeout_ms: u64,
    /// Most RPC connections served at a time.
    pub max_connections: usize,
    /// Whether a line of metrics is logged every 10 s.
    pub report_metrics: bool,
    /// How long to poll for the next request before blocking, while requests come fast; zero: not at all.
    pub busy_poll: Duration,
    /// From how long on a request, or a turn of the master's own work, is logged as slow; zero: none is.
    pub slow_call: Duration,
    /// The collector that gets the spans of requests whose callers are traced; by default none does.
    pub otel_endpoint: Option<Endpoint>,
    /// Whether there are other masters, and where the membership record is kept.
    pub leadership: LeadershipConfig,
    /// The pod that gets a label while this master leads; by default none does.
    pub pod: Option<PodConfig>,
    /// Whether this master follows the nodes' ledgers while it is a standby. It then needs as much memory as a
    /// leader.
    pub warm_standby: bool,
    /// Where the quotas of tenants are kept, if the rules of the pool enforce them.
    pub tenant_quotas: Option<QuotaSource>,
    /// The rules of the pool.
    pub pool: mooncake_meta::Config,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            rpc_address: "0.0.0.0".to_owned(),
            rpc_port: 50_051,
            metrics_host: "0.0.0.0".to_owned(),
            metrics_port: 9_003,
            metadata_server: None,
            kv_events: None,
            cluster_id: "mooncake_cluster".to_owned(),
            auth_token: Secret::default(),
            roles: None,
            tls: None,
            tcp_no_delay: true,
            idle_timeout_ms: 0,
            frame_timeout_ms: 30_000,
            max_connections: DEFAULT_MAX_CONNECTIONS,
            report_metrics: true,
            busy_poll: BusyWait::DEFAULT_LIMIT,
            slow_call: Watch::DEFAULT_SLOW,
            otel_endpoint: None,
            leadership: LeadershipConfig::default(),
            pod: None,
            warm_standby: true,
            tenant_quotas: None,
            pool: mooncake_meta::Config::default(),
        }
    }
}
