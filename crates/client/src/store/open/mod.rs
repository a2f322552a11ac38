mod check;
mod disk;
mod join;
mod object_store;
mod segment;
mod shared_disk;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use mooncake_node::{Host, PrefaultThread};
use mooncake_ops::{CacheLimits, RouteCache};
use mooncake_transfer::{HotCache, LocalTransport, Paths, SegmentHost, ServerConfig, TcpConfig};
use mooncake_types::{Chance, ClientId, Medium, SegmentId};
use mooncake_wire::{Hello, PROTOCOL_VERSION, Role};

use super::get_session::GetSessions;
use super::mount::Mounts;
use super::put_sessions::PutSessions;
use super::refused_puts::RefusedPuts;
use super::renewal::Renewal;
use super::segment_warnings;
use super::serving::Serving;
use super::session::Session;
use crate::clock::Clock;
use crate::config::StoreConfig;
use crate::heartbeat::Heartbeat;
use crate::http::Http;
use crate::leader::masters;
use crate::metrics::Metrics;
use crate::open_error::OpenError;
use crate::random::random;
use crate::rpc::{Dialer, Masters, Pool};
use crate::tasks::Tasks;
use check::check;

/// Longest attempt to connect to one address of the master: so long at most a call waits for one that says nothing.
const LONGEST_ATTEMPT: Duration = Duration::from_secs(1);

/// The same where another master may have taken over: the one that leads answers at once.
const LONGEST_ATTEMPT_OF_SEVERAL: Duration = Duration::from_secs(1);

/// Longest wait for the answer to a heartbeat; the master gives a client up after ten seconds by default.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(3);

/// Longest wait for the master when leaving.
const GOODBYE_TIMEOUT: Duration = Duration::from_secs(2);

/// How long connecting to a node may take. A get then meets a node that vanished in less than a second.
const NODE_CONNECT_TIMEOUT: Duration = Duration::from_millis(600);

/// Most connections that a node serves: two thousand busy clients with four lanes each. A connection costs a thread
/// with a small stack and a descriptor.
const MAX_SERVED_CONNECTIONS: usize = 8192;

/// A store that is being opened: what is known before anything is asked of the system or the master.
struct Opening {
    config: StoreConfig,
    masters: Arc<Masters>,
    client: ClientId,
    segment: SegmentId,
    chance: Chance,
    clock: Clock,
    is_wanted: Wanted,
}

/// Whether a store is still wanted while it is being opened.
pub(super) type Wanted = Box<dyn Fn() -> bool>;

/// Opens a session, as long as `is_wanted`; gives the hostname too.
pub(super) fn open(config: StoreConfig, is_wanted: Wanted) -> Result<(Session, String), OpenError> {
    let mut opening = Opening::new(config, is_wanted)?;
    let metrics = Arc::new(Metrics::new(random()? as u64));
    let http = opening.config.http.as_ref();
    let http = http.map(|address| Http::start(address, Arc::clone(&metrics))).transpose()?;
    let host = Arc::new(opening.host()?);
    opening.lend_object_store(&host)?;
    // The epoch that a named segment kept. One that no leader can have is refused here, and the node obeys no older leader.
    let _ = opening.masters.believe(host.epoch());
    let routes = Arc::new(RouteCache::new(opening.route_limits()));
    host.outlast_promises();
    let mut bond = opening.join(&host, &routes, &metrics)?;
    let bound = opening.bind(&bond)?;
    let (hostname, endpoint) = (bound.hostname.clone(), bound.endpoint.clone());
    let serving =
        Serving::hold(bound.socket, Arc::clone(&host) as _, opening.server_config(&metrics));
    if opening.serves() {
        serving.start().map_err(thread_error("data server"))?;
    }
    opening.lend_shared_disk(&host);
    let disks = opening.lend(&mut bond, &host, (&hostname, &endpoint))?;
    let tasks = Arc::new(opening.tasks(&host, &metrics));
    if !host.disks().is_empty() {
        tasks.wake();
    }
    let waking = Arc::clone(&tasks);
    let heartbeat =
        Heartbeat::start(bond, move || waking.wake()).map_err(thread_error("heartbeat"))?;
    let prefaulting = PrefaultThread::start(&host).map_err(thread_error("prefault"))?;
    if let Some(http) = &http {
        http.opened(heartbeat.well(), heartbeat.unreached());
    }
    let mounts = Mounts::new(hostname.clone(), endpoint, opening.config.domains.clone());
    mounts.add_disks(disks);
    let renewal = Arc::new(opening.renewal(&host, &metrics, &routes));
    let hot_cache = opening.hot_cache(&metrics)?;
    let session = Session {
        routes,
        renewal,
        prefaulting,
        clock: opening.clock,
        mounts,
        pool: opening.pool(opening.config.rpc_timeout, &host, &metrics),
        metrics,
        http,
        paths: opening.paths(&host, opening.config.lanes_per_peer).with_hot_cache(hot_cache),
        call_ms: opening.call_ms(),
        host,
        heartbeat,
        gets: GetSessions::default(),
        puts: PutSessions::default(),
        tasks,
        serving,
        goodbye: opening.goodbye(),
        choices: AtomicU64::new(opening.chance.bits()),
        refused_puts: RefusedPuts::default(),
    };
    Ok((session, hostname))
}

impl Opening {
    fn new(config: StoreConfig, is_wanted: Wanted) -> Result<Self, OpenError> {
        check(&config)?;
        let masters = Arc::new(masters(&config)?);
        Ok(Self {
            masters,
            client: ClientId(random()?),
            segment: SegmentId(random()?),
            chance: Chance::new(random()? as u64),
            clock: Clock::start(),
            is_wanted,
            config,
        })
    }

    /// All that this process lends.
    fn host(&mut self) -> Result<Host, OpenError> {
        let mut disk = self.open_disk()?;
        let client = self.client;
        let host = Host::new(self.map_segment()?);
        if self.client != client {
            disk = disk.map(|disk| self.hand_disk_over(disk)).transpose()?;
        }
        if let Some(disk) = disk {
            host.lend_disk(disk);
        }
        Ok(host)
    }

    fn serves(&self) -> bool {
        self.config.segment_bytes > 0
    }

    fn dialer(&self, call_timeout: Duration) -> Dialer {
        let longest_attempt =
            if self.masters.are_several() { LONGEST_ATTEMPT_OF_SEVERAL } else { LONGEST_ATTEMPT };
        let hello = Hello {
            protocol_version: PROTOCOL_VERSION,
            cluster_id: self.config.cluster_id.clone(),
            role: if self.serves() { Role::Node } else { Role::Client },
            client: self.client,
            auth_token: self.config.auth_token.clone(),
        };
        Dialer {
            attempt_timeout: self.config.rpc_connect_timeout.min(longest_attempt),
            call_timeout,
            ..Dialer::new(Arc::clone(&self.masters), hello, self.config.busy_poll)
        }
    }

    fn goodbye(&self) -> Dialer {
        let mut dialer = self.dialer(self.config.rpc_timeout.min(GOODBYE_TIMEOUT));
        dialer.attempt_timeout = dialer.attempt_timeout.min(GOODBYE_TIMEOUT);
        dialer
    }

    fn server_config(&self, metrics: &Metrics) -> ServerConfig {
        ServerConfig {
            cluster_id: self.config.cluster_id.clone(),
            auth_token: self.config.auth_token.clone(),
            max_connections: MAX_SERVED_CONNECTIONS,
            busy_poll: self.config.busy_poll,
            local_socket: !self.config.transports.near().is_empty(),
            served: Arc::clone(&metrics.served),
        }
    }

    fn pool(&self, call_timeout: Duration, host: &Arc<Host>, metrics: &Arc<Metrics>) -> Pool {
        Pool::new(self.dialer(call_timeout), Arc::clone(metrics), Arc::clone(host))
    }

    /// What tasks need: ways of their own, one connection to each node.
    fn tasks(&self, host: &Arc<Host>, metrics: &Arc<Metrics>) -> Tasks {
        let timeout = self.config.rpc_timeout.min(HEARTBEAT_TIMEOUT);
        let pool = self.pool(timeout, host, metrics);
        let tasks = Tasks::new(self.clock, pool, self.paths(host, 1), self.call_ms());
        let disks = host.disks();
        let tasks = if disks.is_empty() { tasks } else { tasks.waiting(timeout) };
        let is_far = disks.iter().any(|disk| disk.medium() == Medium::ObjectStore);
        if is_far { tasks.many_at_once() } else { tasks }
    }

    /// How long after its start a call begins something: neither one request nor one transfer alone uses that up.
    fn call_ms(&self) -> u64 {
        let longest = self.config.rpc_timeout.max(self.config.transfer_timeout);
        u64::try_from(longest.as_millis()).unwrap_or(u64::MAX)
    }

    fn route_limits(&self) -> CacheLimits {
        if self.config.route_cache { CacheLimits::default() } else { CacheLimits::NONE }
    }

    fn renewal(
        &self,
        host: &Arc<Host>,
        metrics: &Arc<Metrics>,
        routes: &Arc<RouteCache>,
    ) -> Renewal {
        let timeout = self.config.rpc_timeout.min(HEARTBEAT_TIMEOUT);
        let pool = self.pool(timeout, host, metrics);
        Renewal::new(self.clock, pool, Arc::clone(host), Arc::clone(routes))
    }

    fn paths(&self, host: &Arc<Host>, lanes_per_peer: usize) -> Paths {
        let host: Arc<dyn SegmentHost> = Arc::clone(host) as _;
        let (config, transports) = (self.tcp(lanes_per_peer), self.config.transports.clone());
        Paths::new(Some(LocalTransport::new(host)), config, transports)
    }

    /// How nodes are reached by TCP.
    fn tcp(&self, lanes_per_peer: usize) -> TcpConfig {
        TcpConfig {
            cluster_id: self.config.cluster_id.clone(),
            auth_token: self.config.auth_token.clone(),
            client: self.client,
            lanes_per_peer,
            bytes_in_flight: self.config.bytes_in_flight,
            connect_timeout: NODE_CONNECT_TIMEOUT,
            transfer_timeout: self.config.transfer_timeout,
            busy_poll: self.config.busy_poll,
            silence_timeout: self.config.transfer_silence,
        }
    }

    /// The copies of this user on this host, if there are to be any.
    fn hot_cache(&self, metrics: &Metrics) -> Result<Option<Arc<HotCache>>, OpenError> {
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

fn thread_error(thread: &'static str) -> impl Fn(std::io::Error) -> OpenError {
    move |error| OpenError::Thread { thread, reason: error.to_string() }
}
