use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use mooncake_ha::Options;
use mooncake_memory::{NamedSegment, NamedSegmentError, NamedSegmentWish, Past, Region};
use mooncake_node::{Host, PrefaultThread, Segment};
use mooncake_transfer::{LocalTransport, Paths, SegmentHost, ServerConfig, TcpConfig};
use mooncake_types::host_port::split;
use mooncake_types::{Chance, ClientId, SegmentId, limits, without_password};
use mooncake_wire::{Hello, PROTOCOL_VERSION, Role};

use super::get_session::GetSessions;
use super::mount::Mounts;
use super::put_session::PutSessions;
use super::refused_puts::RefusedPuts;
use super::renewal::Renewal;
use super::segment_warnings;
use super::serving::Serving;
use super::session::Session;
use crate::address::MasterAddress;
use crate::bind::{Bound, Wish, bind, split_advertised};
use crate::clock::Clock;
use crate::heartbeat::{Bond, Heartbeat, Turn};
use crate::http::Http;
use crate::membership::{Lent, Membership};
use crate::metrics::Metrics;
use crate::ops::{CacheLimits, RouteCache};
use crate::rpc::{DialError, Dialer, Masters, Pool};
use crate::tasks::Tasks;
use crate::{OpenError, StoreConfig};

/// Longest attempt to connect to one address of the master: so long at most a call waits for one that says nothing.
const LONGEST_ATTEMPT: Duration = Duration::from_secs(1);

/// The same where another master may have taken over: the one that leads answers at once.
const LONGEST_ATTEMPT_OF_SEVERAL: Duration = Duration::from_secs(1);

/// Longest wait for the answer to a heartbeat; the master gives a client up after ten seconds by default.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(3);

/// A client that waits for its master for longer than this says so.
const COMPLAINT: Duration = Duration::from_secs(1);

/// Longest time between two questions whether the store is still wanted.
const LONGEST_REST: Duration = Duration::from_millis(50);

/// Longest wait for the master when leaving.
const GOODBYE_TIMEOUT: Duration = Duration::from_secs(2);

/// How long connecting to a node may take. A get then meets a node that vanished in less than a second.
const NODE_CONNECT_TIMEOUT: Duration = Duration::from_millis(600);

/// Longest wait for another process to let go of the segment's file: one that was killed takes a while to go.
const FILE_PATIENCE: Duration = Duration::from_secs(5);

/// Most connections that a node serves: two thousand busy clients with four lanes each. A connection costs a thread
/// with a small stack and a descriptor.
const MAX_SERVED_CONNECTIONS: usize = 8192;

const LOCAL_BUFFER_BYTES: std::ops::RangeInclusive<u64> = 1 << 10..=1 << 40;

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
    let host = Arc::new(Host::new(opening.map_segment()?));
    // What a named segment remembers; an error would mean that no leader can have it, and nobody is obeyed then.
    let _ = opening.masters.believe(host.epoch());
    let routes = Arc::new(RouteCache::new(opening.route_limits()));
    let mut bond = opening.join(&host, &routes, &metrics)?;
    let bound = opening.bind(&bond)?;
    let (hostname, endpoint) = (bound.hostname.clone(), bound.endpoint.clone());
    let serving =
        Serving::hold(bound.socket, Arc::clone(&host) as _, opening.server_config(&metrics));
    if opening.serves() {
        serving.start().map_err(thread_error("data server"))?;
    }
    opening.lend(&mut bond, &host, (&hostname, &endpoint))?;
    let tasks = Arc::new(opening.tasks(&host, &metrics));
    let heartbeat =
        Heartbeat::start(bond, Arc::clone(&tasks)).map_err(thread_error("heartbeat"))?;
    let prefaulting = PrefaultThread::start(&host).map_err(thread_error("prefault"))?;
    if let Some(http) = &http {
        http.opened(heartbeat.well(), heartbeat.unreached());
    }
    let renewal = Arc::new(opening.renewal(&host, &metrics, &routes));
    let session = Session {
        routes,
        renewal,
        prefaulting,
        clock: opening.clock,
        mounts: Mounts::new(hostname.clone(), endpoint),
        pool: opening.pool(opening.config.rpc_timeout, &host, &metrics),
        metrics,
        http,
        paths: opening.paths(&host, opening.config.lanes_per_peer),
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

    fn serves(&self) -> bool {
        self.config.segment_bytes > 0
    }

    fn map_segment(&mut self) -> Result<Vec<Segment>, OpenError> {
        if !self.serves() {
            return Ok(Vec::new());
        }
        if let Some(path) = self.config.segment_path.clone() {
            let named = self.named_segment(&path);
            return named.map(|segment| vec![segment]).map_err(|error| OpenError::NamedSegment {
                path: path.display().to_string(),
                error,
            });
        }
        let bytes = self.config.segment_bytes;
        segment_warnings::check_size(bytes);
        let region = Region::anonymous(bytes)
            .map_err(|error| OpenError::Map { bytes, reason: error.to_string() })?;
        Ok(vec![Segment::new(self.segment, region.emptied_at_end())])
    }

    /// Opens the segment's file. Who had it before was the same client to the master.
    fn named_segment(&mut self, path: &Path) -> Result<Segment, NamedSegmentError> {
        let begun = Instant::now();
        let named = NamedSegment::open(&NamedSegmentWish {
            path: path.to_owned(),
            len: self.config.segment_bytes,
            cluster_id: self.config.cluster_id.clone(),
            segment: self.segment,
            client: self.client,
            reset: self.config.segment_reset,
            patience: FILE_PATIENCE,
        })?;
        match named.is_in_memory {
            true => segment_warnings::check_size(self.config.segment_bytes),
            false => segment_warnings::warn_of_disk(path),
        }
        let (path, past) = (path.display(), named.past);
        self.client = named.client;
        let segment = Segment::named(self.segment, named)?;
        self.segment = segment.id();
        match past {
            Past::None => tracing::info!(%path, segment = %segment.id(), "a named segment is made"),
            Past::EarlierRun => tracing::warn!(
                %path,
                "the named segment is of before the machine started, and begins empty"
            ),
            Past::Kept => {
                let (objects, bytes) = segment.complete_entries();
                let took_ms = begun.elapsed().as_millis() as u64;
                let segment = segment.id();
                tracing::info!(%path, %segment, objects, bytes, took_ms, "a named segment is lent again");
            }
        }
        Ok(segment)
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

    /// Connects to the master.
    fn join(
        &mut self,
        host: &Arc<Host>,
        routes: &Arc<RouteCache>,
        metrics: &Arc<Metrics>,
    ) -> Result<Bond, OpenError> {
        let mut bond = Bond {
            membership: Membership::new(self.masters.count(), Chance::new(self.chance.bits())),
            dialer: self.dialer(self.config.rpc_timeout.min(HEARTBEAT_TIMEOUT)),
            host: Arc::clone(host),
            metrics: Arc::clone(metrics),
            routes: Arc::clone(routes),
            clock: self.clock,
            connection: None,
            ahead: None,
            lets_go: self.config.rpc_timeout > HEARTBEAT_TIMEOUT,
        };
        self.turn_until(&mut bond, |bond| bond.connection.is_some())?;
        Ok(bond)
    }

    fn bind(&mut self, bond: &Bond) -> Result<Bound, OpenError> {
        let connection = bond.connection.as_ref().expect("joining ended with a connection");
        let local =
            connection.stream().local_addr().map_err(|error| OpenError::MasterUnreachable {
                master: without_password(&self.config.master),
                waited_ms: 0,
                reason: error.to_string(),
            })?;
        let wish = Wish {
            local_hostname: &self.config.local_hostname,
            bind_address: self.config.bind_address.as_deref(),
            ports: self.config.ports.clone(),
            towards_master: local.ip(),
            serves: self.config.segment_bytes > 0,
            advertise: self.config.advertise_address.as_deref(),
            port_is_a_name: self.config.port_is_a_name,
        };
        bind(&wish, &mut self.chance)
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

    /// Lends the segments, and waits until the master has them.
    fn lend(
        &self,
        bond: &mut Bond,
        host: &Host,
        (name, endpoint): (&str, &str),
    ) -> Result<(), OpenError> {
        let lent = host.segments().into_iter().map(|segment| Lent {
            id: segment.id(),
            name: name.to_owned(),
            endpoint: endpoint.to_owned(),
            len: segment.len_bytes(),
            run: segment.run(),
        });
        bond.membership.lend(lent.collect());
        self.turn_until(bond, |bond| bond.membership.is_settled())?;
        match bond.membership.mount_refusal() {
            None => Ok(()),
            Some((segment, code)) => Err(OpenError::MountRefused {
                name: segment.name.clone(),
                bytes: segment.len,
                code,
            }),
        }
    }

    /// Does what is due until `done`, for as long as reaching the master may take and the store is wanted.
    fn turn_until(&self, bond: &mut Bond, done: impl Fn(&Bond) -> bool) -> Result<(), OpenError> {
        let started = Instant::now();
        let patience = self.config.rpc_connect_timeout;
        let mut reason = "there was no time for one".to_owned();
        let mut has_complained = false;
        while !done(bond) {
            let waited = started.elapsed();
            if waited >= patience {
                let master = without_password(&self.config.master);
                let waited_ms = waited.as_millis() as u64;
                return Err(OpenError::MasterUnreachable { master, waited_ms, reason });
            }
            if !(self.is_wanted)() {
                return Err(OpenError::GivenUp);
            }
            if waited >= COMPLAINT && !has_complained {
                has_complained = true;
                self.complain(patience, &reason);
            }
            match bond.turn() {
                Turn::Done => {}
                Turn::NotConnected(DialError::Refused { address, code, message }) => {
                    return Err(OpenError::Refused { master: address, code, message });
                }
                Turn::NotConnected(error) => reason = error.to_string(),
                Turn::NotAnswered(error) => reason = error.to_string(),
                Turn::Idle(until) => {
                    let wait = Duration::from_millis(until.since_ms(self.clock.now()));
                    std::thread::sleep(wait.min(patience - waited).min(LONGEST_REST));
                }
            }
        }
        Ok(())
    }

    /// Says what the opening waits for.
    fn complain(&self, patience: Duration, reason: &str) {
        let (master, patience_s) = (without_password(&self.config.master), patience.as_secs());
        tracing::warn!(
            master,
            reason,
            patience_s,
            "no master has taken this client yet; it goes on trying"
        );
    }

    fn pool(&self, call_timeout: Duration, host: &Arc<Host>, metrics: &Arc<Metrics>) -> Pool {
        Pool::new(self.dialer(call_timeout), Arc::clone(metrics), Arc::clone(host))
    }

    /// What tasks need: ways of their own, one connection to each node.
    fn tasks(&self, host: &Arc<Host>, metrics: &Arc<Metrics>) -> Tasks {
        let timeout = self.config.rpc_timeout.min(HEARTBEAT_TIMEOUT);
        let pool = self.pool(timeout, host, metrics);
        Tasks::new(self.clock, pool, self.paths(host, 1), self.call_ms())
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
        let config = TcpConfig {
            cluster_id: self.config.cluster_id.clone(),
            auth_token: self.config.auth_token.clone(),
            client: self.client,
            lanes_per_peer,
            bytes_in_flight: self.config.bytes_in_flight,
            connect_timeout: NODE_CONNECT_TIMEOUT,
            transfer_timeout: self.config.transfer_timeout,
            busy_poll: self.config.busy_poll,
            silence_timeout: self.config.transfer_silence,
        };
        Paths::new(Some(LocalTransport::new(host)), config, self.config.transports.clone())
    }
}

/// The masters that the configuration names.
pub(crate) fn masters(config: &StoreConfig) -> Result<Masters, OpenError> {
    let name = match MasterAddress::parse(&config.master)? {
        MasterAddress::Listed(addresses) => return Ok(Masters::listed(addresses)),
        MasterAddress::Elected(name) => name,
    };
    let kubernetes = config.kubernetes.clone();
    let options = Options { kubernetes, ..Options::new(&config.cluster_id) };
    let coordinator = mooncake_ha::connect(&name, &options)
        .map_err(|error| OpenError::Coordinator { reason: error.to_string() })?;
    Ok(Masters::elected(coordinator, without_password(&name)))
}

/// Everything that is wrong with a configuration whatever the machine is like.
fn check(config: &StoreConfig) -> Result<(), OpenError> {
    let segment_sizes = limits::MIN_SEGMENT_BYTES..=limits::MAX_SEGMENT_BYTES;
    if config.segment_bytes != 0 && !segment_sizes.contains(&config.segment_bytes) {
        return Err(OpenError::SegmentSize { bytes: config.segment_bytes });
    }
    if config.local_buffer_bytes != 0 && !LOCAL_BUFFER_BYTES.contains(&config.local_buffer_bytes) {
        return Err(OpenError::LocalBufferSize { bytes: config.local_buffer_bytes });
    }
    let (first, last) = (*config.ports.start(), *config.ports.end());
    if first == 0 || first > last {
        return Err(OpenError::Ports { first, last });
    }
    let advertised = config.advertise_address.as_deref().unwrap_or_default();
    // A port and its colon are added to the hostname.
    let names = [
        ("the local hostname", config.local_hostname.len() + ":65535".len()),
        ("the cluster id", config.cluster_id.len()),
        ("the auth token", config.auth_token.len()),
        ("the advertised address", advertised.len() + ":65535".len()),
    ];
    for (what, len) in names {
        if len > limits::MAX_NAME_BYTES {
            return Err(OpenError::NameTooLong { what, len });
        }
    }
    if let Some(address) = &config.advertise_address {
        split_advertised(address)?;
    }
    split(&config.local_hostname).map(|_| ()).map_err(|reason| OpenError::Address {
        what: "the local hostname",
        text: config.local_hostname.clone(),
        reason,
    })
}

fn thread_error(thread: &'static str) -> impl Fn(std::io::Error) -> OpenError {
    move |error| OpenError::Thread { thread, reason: error.to_string() }
}

pub(crate) fn random() -> Result<u128, OpenError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| OpenError::Random { reason: error.to_string() })?;
    Ok(u128::from_le_bytes(bytes))
}
