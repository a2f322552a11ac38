use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use mooncake_calls::SpanSink;
use mooncake_connection::Roles;
use mooncake_memory::crc32c;
use mooncake_node::Host;
use mooncake_ops::{CacheLimits, RouteCache};
use mooncake_otlp::Exporter;
use mooncake_tls::Tls;
use mooncake_transfer::{
    FabricDevice, FabricError, FarLender, HotCache, LocalTransport, NO_NIC, Paths, SealKeys,
    SegmentHost, ServerConfig, TcpConfig, Way,
};
use mooncake_types::{Chance, ClientId, Medium};
use mooncake_wire::{Hello, PROTOCOL_VERSION, Role};

use crate::clock::Clock;
use crate::config::StoreConfig;
use crate::fabric_device::open_fabric_device;
use crate::leader::masters;
use crate::metrics::Metrics;
use crate::open_error::OpenError;
use crate::random::random;
use crate::rpc::{ConnectionPool, Dialer, Masters};
use crate::store::renewal::Renewal;
use crate::store::segment_warnings;
use crate::tasks::Tasks;

/// Longest attempt to connect to one address of the master. A call waits no longer to reach a master that does not
/// answer.
const LONGEST_ATTEMPT: Duration = Duration::from_secs(1);

/// Longest wait for the answer to a heartbeat. The master gives up a client after ten seconds by default.
pub(super) const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(3);

/// Longest wait for the master when leaving.
const GOODBYE_TIMEOUT: Duration = Duration::from_secs(2);

/// Longest time to connect to a node. So a get learns in less than a second that a node has vanished.
const NODE_CONNECT_TIMEOUT: Duration = Duration::from_millis(600);

/// Most connections that a node serves: two thousand busy clients with four lanes each. A connection costs a thread
/// with a small stack and a descriptor.
const MAX_SERVED_CONNECTIONS: usize = 8192;

/// A store that is being opened, before the system or the master was asked for anything.
pub(super) struct Opening {
    pub(super) config: StoreConfig,
    pub(super) masters: Arc<Masters>,
    pub(super) client: ClientId,
    /// The id that was drawn for the case that the memory or the disk of this process has none.
    drawn: ClientId,
    pub(super) chance: Chance,
    pub(super) clock: Clock,
    pub(super) is_wanted: Wanted,
    /// The device for one-sided transfers, if there is one and it may be used.
    fabric: Option<Arc<FabricDevice>>,
    /// The certificates of this process, if connections between hosts are encrypted.
    pub(super) tls: Option<Tls>,
    /// Tokens of peers that may do less than others.
    roles: Option<Roles>,
    /// The keys of the master's seals, in a pool with secrets.
    pub(super) seals: Option<Arc<SealKeys>>,
}

/// Whether a store is still wanted while it is being opened.
pub(in crate::store) type Wanted = Box<dyn Fn() -> bool>;

impl Opening {
    pub(super) fn new(config: StoreConfig, is_wanted: Wanted) -> Result<Self, OpenError> {
        let masters = Arc::new(masters(&config)?);
        let tls = open_tls(&config)?;
        let has_secret = !config.auth_token.is_empty() || tls.is_some();
        let drawn = ClientId(random()?);
        Ok(Self {
            fabric: open_fabric(&config)?,
            tls,
            seals: has_secret.then(Arc::default),
            roles: config.roles_file.as_deref().map(Roles::open).transpose()?,
            masters,
            client: drawn,
            drawn,
            chance: Chance::new(random()? as u64),
            clock: Clock::start(),
            is_wanted,
            config,
        })
    }

    /// Where the search for a free port begins. A node that is started again as it was has its port again, and with it
    /// its name, if the port is free: one with a file or a disk by the id there, another by what it was started with and
    /// where. Nodes of one host that are started alike share their ports. Those of several hosts have names of their own,
    /// also where all are `localhost`. Processes that lend nothing begin anywhere.
    pub(super) fn search_from(&self, own: IpAddr) -> u64 {
        if !self.serves() || self.client != self.drawn {
            return self.client.0 as u64;
        }
        let StoreConfig { local_hostname, master, segment_bytes, .. } = &self.config;
        crc32c(format!("{local_hostname} {own} {master} {segment_bytes}").as_bytes()).into()
    }

    /// The metrics, with all counters at zero.
    pub(super) fn metrics(&self) -> Result<Metrics, OpenError> {
        let exporter = self.config.otel_endpoint.as_ref().map(Exporter::start).transpose();
        let exporter = exporter.map_err(|error| OpenError::Thread {
            thread: "OpenTelemetry",
            reason: error.to_string(),
        })?;
        let sink = exporter.map(|exporter| Arc::new(exporter) as Arc<dyn SpanSink>);
        Ok(Metrics::new(random()? as u64, self.config.slow_call, sink))
    }

    /// Lets the metrics tell of the NICs.
    pub(super) fn show_device(&self, metrics: &Metrics) {
        if let Some(device) = &self.fabric {
            metrics.show_device(device);
        }
    }

    pub(super) fn serves(&self) -> bool {
        self.config.segment_bytes > 0
    }

    pub(super) fn dialer(&self, call_timeout: Duration) -> Dialer {
        let hello = Hello {
            protocol_version: PROTOCOL_VERSION,
            cluster_id: self.config.cluster_id.clone(),
            role: if self.serves() { Role::Node } else { Role::Client },
            client: self.client,
            auth_token: self.config.auth_token.clone(),
        };
        Dialer {
            attempt_timeout: self.config.rpc_connect_timeout.min(LONGEST_ATTEMPT),
            call_timeout,
            ..Dialer::new(Arc::clone(&self.masters), hello, self.config.busy_poll)
        }
        .with_tls(self.tls.clone())
    }

    pub(super) fn goodbye(&self) -> Dialer {
        let mut dialer = self.dialer(self.config.rpc_timeout.min(GOODBYE_TIMEOUT));
        dialer.attempt_timeout = dialer.attempt_timeout.min(GOODBYE_TIMEOUT);
        dialer
    }

    pub(super) fn server_config(&self, metrics: &Metrics) -> ServerConfig {
        let lend = |device| {
            let lender = FarLender::open(device);
            let warn = |error: &FabricError| {
                tracing::warn!(%error, "segments are not lent to other hosts one-sided");
            };
            lender.inspect_err(warn).map(Arc::new).ok()
        };
        ServerConfig {
            far: self.fabric.as_ref().and_then(lend),
            cluster_id: self.config.cluster_id.clone(),
            auth_token: self.config.auth_token.clone(),
            roles: self.roles.clone(),
            tls: self.tls.clone(),
            max_connections: MAX_SERVED_CONNECTIONS,
            busy_poll: self.config.busy_poll,
            local_socket: !self.config.transports.near().is_empty(),
            seals: self.seals.clone(),
            served: Arc::clone(&metrics.served),
            calls: Arc::clone(&metrics.served_calls),
        }
    }

    pub(super) fn pool(
        &self,
        call_timeout: Duration,
        host: &Arc<Host>,
        metrics: &Arc<Metrics>,
    ) -> ConnectionPool {
        ConnectionPool::new(self.dialer(call_timeout), Arc::clone(metrics), Arc::clone(host))
    }

    /// The tasks of the store. They have their own connections, one to each node.
    pub(super) fn tasks(&self, host: &Arc<Host>, metrics: &Arc<Metrics>) -> Tasks {
        let timeout = self.config.rpc_timeout.min(HEARTBEAT_TIMEOUT);
        let pool = self.pool(timeout, host, metrics);
        let tasks = Tasks::new(self.clock, pool, self.paths(host, 1), self.call_ms());
        let disks = host.disks();
        let tasks = if disks.is_empty() { tasks } else { tasks.waiting(timeout) };
        let is_far = disks.iter().any(|disk| disk.medium() == Medium::ObjectStore);
        if is_far { tasks.many_at_once() } else { tasks }
    }

    /// How long after its start a call may begin a step. Neither one request nor one transfer alone uses that up.
    pub(super) fn call_ms(&self) -> u64 {
        let longest = self.config.rpc_timeout.max(self.config.transfer_timeout);
        u64::try_from(longest.as_millis()).unwrap_or(u64::MAX)
    }

    pub(super) fn route_limits(&self) -> CacheLimits {
        if self.config.route_cache { CacheLimits::default() } else { CacheLimits::NONE }
    }

    pub(super) fn renewal(
        &self,
        host: &Arc<Host>,
        metrics: &Arc<Metrics>,
        routes: &Arc<RouteCache>,
    ) -> Renewal {
        let timeout = self.config.rpc_timeout.min(HEARTBEAT_TIMEOUT);
        let pool = self.pool(timeout, host, metrics);
        Renewal::new(self.clock, pool, Arc::clone(host), Arc::clone(routes))
    }

    pub(super) fn paths(&self, host: &Arc<Host>, lanes_per_peer: usize) -> Paths {
        let host: Arc<dyn SegmentHost> = Arc::clone(host) as _;
        let (config, transports) = (self.tcp(lanes_per_peer), self.config.transports.clone());
        let paths = Paths::new(Some(LocalTransport::new(host)), config, transports);
        paths.with_fabric(self.fabric.clone())
    }

    /// How nodes are reached by TCP.
    pub(super) fn tcp(&self, lanes_per_peer: usize) -> TcpConfig {
        TcpConfig {
            cluster_id: self.config.cluster_id.clone(),
            auth_token: self.config.auth_token.clone(),
            tls: self.tls.clone(),
            client: self.client,
            lanes_per_peer,
            connect_timeout: NODE_CONNECT_TIMEOUT,
            transfer_timeout: self.config.transfer_timeout,
            busy_poll: self.config.busy_poll,
            silence_timeout: self.config.transfer_silence,
            verify_reads: self.config.verify_reads,
            ..TcpConfig::default()
        }
    }

    /// Opens the cache of this user on this host, if one is configured.
    pub(super) fn hot_cache(&self, metrics: &Metrics) -> Result<Option<Arc<HotCache>>, OpenError> {
        let config = &self.config.hot_cache;
        if config.bytes == 0 {
            return Ok(None);
        }
        let opened = HotCache::open(config, self.tcp(1));
        let hot = opened.map_err(|error| OpenError::HotCache { reason: error.to_string() })?;
        segment_warnings::check_size(hot.len_bytes());
        tracing::info!(bytes = hot.len_bytes(), "reads go through a hot cache");
        let hot = Arc::new(hot);
        metrics.show_hot_cache(Arc::clone(&hot));
        Ok(Some(hot))
    }
}

/// Reads the certificates, if there are any. Without one of its own a process lends nothing.
fn open_tls(config: &StoreConfig) -> Result<Option<Tls>, OpenError> {
    let tls = Tls::of(&config.tls)?;
    if config.segment_bytes > 0 && !config.only_this_host {
        tls.as_ref().map_or(Ok(()), Tls::check_serving)?;
    }
    Ok(tls)
}

/// Opens the device for one-sided transfers, if these may be used. Without one, another way serves, unless none is
/// allowed.
fn open_fabric(config: &StoreConfig) -> Result<Option<Arc<FabricDevice>>, OpenError> {
    let transports = &config.transports;
    if !transports.prefers(Way::Fabric) {
        if config.rdma.is_some() {
            tracing::warn!(%transports, "protocol 'rdma': the transports do not allow it");
        }
        return Ok(None);
    }
    match open_fabric_device(config) {
        Ok(device) => {
            tracing::info!(device = %device.device(), "other hosts are reached one-sided");
            Ok(Some(device))
        }
        Err(error) if transports.allows(Way::Tcp) => {
            match config.rdma {
                Some(_) => {
                    tracing::warn!(%error, "protocol 'rdma': {NO_NIC}, so other hosts are reached by tcp");
                }
                None => {
                    tracing::warn!(%error, "fabric cannot be used, so other hosts are reached by tcp");
                }
            }
            Ok(None)
        }
        Err(error) => {
            let (transports, reason) = (transports.to_string(), error.to_string());
            Err(OpenError::Fabric { transports, reason })
        }
    }
}
