//! The arguments of `setup`, checked, as the configuration of a store.

use std::path::PathBuf;
use std::sync::Once;
use std::time::Duration;

use mooncake_client::no_effect::{asks_for_nothing, variables, warning};
use mooncake_client::{
    HttpAddress, OffloadConfig, OpenError, Store, StoreConfig, is_served_by_tcp,
};
use mooncake_engine::EngineConfig;
use mooncake_host_pool::{HostPool, HostPoolAddress};
use mooncake_tls::TlsConfig;
use mooncake_types::{FailureDomains, PrefetchLimits, Tenant};

use crate::pool_client::PoolClient;
use crate::protocol::warn_of_protocol;
use crate::setup_error::SetupError;

/// The value of `metadata_server` for callers without a metadata server.
pub const PEER_TO_PEER: &str = "P2PHANDSHAKE";
/// The default of `master_server_addr`.
pub const DEFAULT_MASTER: &str = "127.0.0.1:50051";
/// The default of both sizes, in bytes.
pub const DEFAULT_SIZE: u64 = 16 << 20;
/// The default of `client_http_port`.
pub const DEFAULT_HTTP_PORT: u64 = 9300;
/// The local buffer of a store for trials, in bytes; as in the C++ package.
const TRIAL_BUFFER_SIZE: u64 = 1 << 30;
/// The protocol that reaches other hosts by NICs.
pub const RDMA: &str = "rdma";
/// The arguments that name NICs.
const DEVICES: [&str; 2] = ["rdma_devices", "device_name"];
/// All addresses of the host, as in the C++ package.
const HTTP_HOST: &str = "0.0.0.0";
const MIN_SIZE: u64 = 1 << 10;
const MAX_LOCAL_BUFFER: u64 = 1 << 40;

/// The arguments of `setup`. The default is a store on this host, with the master at its default address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// `HOST` or `HOST:PORT` of the store.
    pub local_hostname: String,
    /// Matters only because it decides what the port means.
    pub metadata_server: String,
    /// The memory that the store lends, in bytes.
    pub global_segment_size: u64,
    /// The memory for calls that copy, in bytes.
    pub local_buffer_size: u64,
    /// The transport protocol.
    pub protocol: String,
    /// The NICs that the protocol `rdma` may use, with commas between them; all if it is empty.
    pub rdma_devices: String,
    /// The address of the master, a coordinator, or a pool without a master.
    pub master_server_addr: String,
    /// The tenant whose keys the calls name, empty for the default one; `None` leaves it to the environment.
    pub tenant_id: Option<String>,
    /// The port of the HTTP server; `None` for no server.
    pub http_port: Option<u64>,
    /// The file of the segment; `None` leaves it to the environment.
    pub segment_path: Option<String>,
    /// Whether the segment's file starts empty; false leaves it to the environment.
    pub segment_reset: bool,
    /// Whether all bytes that are read are checked; false leaves it to the environment.
    pub verify_reads: bool,
    /// The certificates for connections between hosts; none leaves them to the environment.
    pub tls: TlsConfig,
    /// The failure domains; `None` leaves them to the environment.
    pub domains: Option<FailureDomains>,
    /// How long `close` lets other nodes take over the objects that lie here; `None` leaves it to the environment.
    pub drain_timeout: Option<Duration>,
    /// From how long on a call is logged as slow; `None` leaves it to the environment.
    pub slow_call: Option<Duration>,
    /// The size of the hot cache in bytes; `None` leaves it to the environment.
    pub hot_cache_size: Option<u64>,
    /// Whether the store lends a disk; false leaves it to the environment.
    pub lends_disk: bool,
    /// The folder of that disk; `None` leaves it to the environment.
    pub disk_path: Option<String>,
    /// Whether the pool has its master in this process; false leaves it to the environment.
    pub has_own_master: bool,
    /// Whether existence checks may have objects copied from disks to memory, and within which limits.
    pub ssd_prefetch: Option<PrefetchLimits>,
    /// The names of arguments that were given and have no effect in this build.
    pub ignored: Vec<String>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            local_hostname: "localhost".to_owned(),
            metadata_server: PEER_TO_PEER.to_owned(),
            global_segment_size: DEFAULT_SIZE,
            local_buffer_size: DEFAULT_SIZE,
            protocol: "tcp".to_owned(),
            rdma_devices: String::new(),
            master_server_addr: DEFAULT_MASTER.to_owned(),
            tenant_id: None,
            http_port: None,
            segment_path: None,
            segment_reset: false,
            verify_reads: false,
            tls: TlsConfig::default(),
            domains: None,
            drain_timeout: None,
            slow_call: None,
            hot_cache_size: None,
            lends_disk: false,
            disk_path: None,
            has_own_master: false,
            ssd_prefetch: None,
            ignored: Vec::new(),
        }
    }
}

/// A store that can be opened: the arguments are checked.
#[derive(Debug)]
pub struct StoreOpening {
    config: StoreConfig,
    /// The pool without a master; `None` if the store uses a master.
    host_pool: Option<HostPoolAddress>,
}

impl StoreOpening {
    /// Opens the store; see [`Store::open_while`].
    ///
    /// # Errors
    /// Those of [`Store::open_while`] and [`HostPool::open_while`].
    pub fn open_while(
        self,
        is_wanted: impl Fn() -> bool + 'static,
    ) -> Result<PoolClient, OpenError> {
        match self.host_pool {
            None => Store::open_while(self.config, is_wanted).map(PoolClient::from),
            Some(at) => HostPool::open_while(&at, self.config, is_wanted).map(PoolClient::from),
        }
    }
}

impl Setup {
    /// The arguments of `init_all`: a store on this host, with a large local buffer.
    #[must_use]
    pub fn for_trials(protocol: &str, segment_size: Option<u64>) -> Self {
        Self {
            global_segment_size: segment_size.unwrap_or(DEFAULT_SIZE),
            local_buffer_size: TRIAL_BUFFER_SIZE,
            protocol: protocol.to_owned(),
            ..Self::default()
        }
    }

    /// Notes these arguments with their values, which have no effect, but for names of devices with the protocol `rdma`.
    /// [`Setup::opening`] warns of those that ask for something.
    #[must_use]
    pub fn with_ignored(mut self, arguments: &[(&str, &str)]) -> Self {
        for (name, value) in arguments.iter().filter(|(_, value)| !asks_for_nothing(value)) {
            match self.protocol == RDMA && DEVICES.contains(name) {
                true => self.rdma_devices = (*value).to_owned(),
                false => self.ignored.push((*name).to_owned()),
            }
        }
        self
    }

    /// Checks the arguments. Values that they do not set come from the environment.
    ///
    /// # Errors
    /// The first argument or environment variable with a wrong value.
    pub fn opening(&self) -> Result<StoreOpening, SetupError> {
        let (config, host_pool) = (self.store_config()?, self.host_pool()?);
        Ok(StoreOpening { config, host_pool })
    }

    fn host_pool(&self) -> Result<Option<HostPoolAddress>, SetupError> {
        let named = HostPoolAddress::parse(&self.master_server_addr).map_err(SetupError::Open)?;
        if named.is_some() || !(self.has_own_master || Self::own_master_of_environment()?) {
            return Ok(named);
        }
        let address = &self.master_server_addr;
        tracing::info!(
            address,
            "setup: enable_embedded_master: the store runs a master of its own, and contacts none at this address"
        );
        Ok(Some(HostPoolAddress::OF_ONE_PROCESS))
    }

    /// Whether the environment asks for a master in this process.
    ///
    /// # Errors
    /// If its variable is neither true nor false.
    pub fn own_master_of_environment() -> Result<bool, SetupError> {
        const NAME: &str = "MOONCAKE_ENABLE_EMBEDDED_MASTER";
        std::env::var(NAME).map_or(Ok(false), |word| truth(NAME, &word))
    }

    fn store_config(&self) -> Result<StoreConfig, SetupError> {
        self.check_sizes()?;
        self.check_protocol()?;
        let tenant = self.tenant_id.as_deref().map(named_tenant).transpose()?;
        warn_of(&self.ignored);
        let mut environment = StoreConfig::from_env().map_err(SetupError::Environment)?;
        if self.protocol == RDMA && !is_tcp_forced() {
            let with = environment.for_rdma(&self.rdma_devices, |name| std::env::var(name).ok());
            environment = with.map_err(SetupError::Environment)?;
        }
        let segment_path = self.segment_path.as_ref().map(PathBuf::from);
        let mut hot_cache = environment.hot_cache.clone();
        hot_cache.bytes = self.hot_cache_size.unwrap_or(hot_cache.bytes);
        Ok(StoreConfig {
            segment_path: segment_path.or_else(|| environment.segment_path.clone()),
            segment_reset: self.segment_reset || environment.segment_reset,
            verify_reads: self.verify_reads || environment.verify_reads,
            domains: self.domains.clone().unwrap_or(environment.domains),
            tls: if self.tls.is_off() { environment.tls } else { self.tls.clone() },
            hot_cache,
            offload: self.offload(&environment.offload),
            ssd_prefetch: self.ssd_prefetch,
            drain_timeout: self.drain_timeout.unwrap_or(environment.drain_timeout),
            slow_call: self.slow_call.unwrap_or(environment.slow_call),
            local_hostname: self.local_hostname.clone(),
            master: self.master_server_addr.clone(),
            tenant: tenant.unwrap_or(environment.tenant),
            segment_bytes: self.global_segment_size,
            local_buffer_bytes: self.local_buffer_size,
            http: self.http()?,
            // With a metadata server, peers of a C++ store look its address up there, and the port is only part of its
            // name. Without one, peers connect to this port.
            port_is_a_name: self.metadata_server != PEER_TO_PEER,
            ..environment
        })
    }

    fn check_protocol(&self) -> Result<(), SetupError> {
        match self.protocol.as_str() {
            "tcp" | RDMA => {}
            other if is_served_by_tcp(other) => warn_of_protocol("setup", other),
            "rpc_only" if self.global_segment_size == 0 => {}
            "rpc_only" => {
                let reason = "must be 0 with protocol 'rpc_only'";
                return Err(SetupError::wrong("global_segment_size", reason));
            }
            other if is_tcp_forced() => {
                tracing::warn!("setup: protocol {other:?} is taken for 'tcp': MC_FORCE_TCP is set");
            }
            other => {
                let reason = format!(
                    "{other:?} is not one of 'tcp', 'rdma', 'efa', 'rpc_only'; with MC_FORCE_TCP=1 it is taken for 'tcp'"
                );
                return Err(SetupError::wrong("protocol", reason));
            }
        }
        Ok(())
    }

    fn offload(&self, environment: &OffloadConfig) -> OffloadConfig {
        let path = self.disk_path.as_ref().map(PathBuf::from);
        OffloadConfig {
            is_enabled: self.lends_disk || environment.is_enabled,
            path: path.unwrap_or_else(|| environment.path.clone()),
            ..environment.clone()
        }
    }

    fn http(&self) -> Result<Option<HttpAddress>, SetupError> {
        let Some(port) = self.http_port else { return Ok(None) };
        match u16::try_from(port) {
            Ok(port) => Ok(Some(HttpAddress { host: HTTP_HOST.to_owned(), port })),
            Err(_) => Err(SetupError::not_a_port("client_http_port", &port)),
        }
    }

    fn check_sizes(&self) -> Result<(), SetupError> {
        let sizes = [
            ("global_segment_size", self.global_segment_size),
            ("local_buffer_size", self.local_buffer_size),
        ];
        for (name, size) in sizes {
            if size != 0 && size < MIN_SIZE {
                let reason = format!("{size} is neither 0 nor at least {MIN_SIZE}");
                return Err(SetupError::wrong(name, reason));
            }
        }
        if self.local_buffer_size > MAX_LOCAL_BUFFER {
            let reason = format!("{} is more than {MAX_LOCAL_BUFFER}", self.local_buffer_size);
            return Err(SetupError::wrong("local_buffer_size", reason));
        }
        Ok(())
    }
}

fn named_tenant(name: &str) -> Result<Tenant, SetupError> {
    Tenant::named(name)
        .map_err(|wrong| SetupError::wrong("tenant_id", format!("{name:?}: {wrong}")))
}

/// The truth value that a word names, as in the C++ package.
///
/// # Errors
/// If it names none.
pub fn truth(name: &'static str, word: &str) -> Result<bool, SetupError> {
    match word.trim().to_ascii_lowercase().as_str() {
        "true" | "t" | "yes" | "y" | "1" | "on" => Ok(true),
        "false" | "f" | "no" | "n" | "0" | "off" | "" => Ok(false),
        _ => Err(SetupError::wrong(name, format!("is {word:?}; it must be true or false"))),
    }
}

/// Whether the environment makes TCP serve every protocol, for stores as for transfer engines.
fn is_tcp_forced() -> bool {
    EngineConfig::from_env().is_ok_and(|config| config.force_tcp)
}

/// Logs one warning that names what has no effect: these arguments, and, in the first call of the process, variables
/// of its environment.
fn warn_of(arguments: &[String]) {
    static ENVIRONMENT: Once = Once::new();
    let mut names = arguments.to_vec();
    ENVIRONMENT.call_once(|| names.extend(variables()));
    if let Some(warning) = warning(&names) {
        tracing::warn!("setup: {warning}");
    }
}
