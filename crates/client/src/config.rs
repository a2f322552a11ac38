use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use mooncake_calls::Watch;
use mooncake_ha::KubernetesAccess;
use mooncake_otlp::Endpoint;
use mooncake_tls::TlsConfig;
use mooncake_transfer::{
    EnvError, FabricOptions, HotCacheConfig, Transports, Variables, VerbsOptions, Way,
    tls_of_variables, token_of_variables,
};
use mooncake_types::{BusyWait, FailureDomains, NotATenant, PrefetchLimits, Secret, Tenant};

use crate::hot_cache;
use crate::offload_config::OffloadConfig;

/// How to set up a [`crate::Store`]. [`crate::Store::open`] reads it once; no code below reads the environment.
#[derive(Clone, Debug, PartialEq)]
pub struct StoreConfig {
    /// The name by which others know this process: `host` or `host:port`, IPv6 literals in brackets. Without a port
    /// it gets one of [`StoreConfig::ports`]. An empty host, `0.0.0.0` and `[::]` stand for the local address of the
    /// connection to the master. If the name is `localhost` and the master is on another machine, others connect to
    /// that address too, while the name stays `localhost:port`.
    pub local_hostname: String,
    /// Where the master is: `host:port`, or several with commas or semicolons between them, which are tried in turn.
    /// Or the coordinator that knows which master leads: `etcd://host:port;host:port`, `redis://host:port`,
    /// `k8s://namespace/lease`, `file:///folder`.
    pub master: String,
    /// The tenant whose keys the calls of the store name. [`crate::Store::for_tenant`] gives those of others.
    pub tenant: Tenant,
    /// Whether this process connects only with processes of its host and user, by local sockets and shared memory.
    /// Then it opens no port, and the master is the endpoint of a local socket, or elected by a folder.
    pub only_this_host: bool,
    /// Access to the API server of Kubernetes, if that is the coordinator.
    pub kubernetes: Option<KubernetesAccess>,
    /// Memory lent to the pool, in bytes; zero lends none.
    pub segment_bytes: u64,
    /// The file of the segment, on a filesystem of memory: `/dev/shm/...`, or one of large pages. The next process
    /// with that file finds the objects there again. Without a file they end with the process. Ignored if no memory
    /// is lent.
    pub segment_path: Option<PathBuf>,
    /// Whether to begin with an empty segment even if that file holds objects.
    pub segment_reset: bool,
    /// The disk to lend beside the memory. Without memory no disk is lent, since its objects come from memory.
    pub offload: OffloadConfig,
    /// Whether [`crate::Store::exist_prefetching`] has objects that lie on disks only copied to memory, and within which
    /// limits.
    pub ssd_prefetch: Option<PrefetchLimits>,
    /// Size of the memory that [`crate::Store::alloc_from_mem_pool`] hands out, in bytes. Zero also disables copying
    /// calls ([`crate::Store::allows_copies`]); any other value does not bound their copies.
    pub local_buffer_bytes: u64,
    /// The cluster to join. All processes of a cluster name the same.
    pub cluster_id: String,
    /// The secret of the cluster; empty if it has none.
    pub auth_token: Secret,
    /// A file with tokens of peers that may do less than those that know that secret. The master has the same.
    pub roles_file: Option<PathBuf>,
    /// The certificates for connections between hosts, if these are encrypted.
    pub tls: TlsConfig,
    /// The address to listen on. The default is the address of the local hostname. It is all addresses if that
    /// belongs to no interface here, or if it is loopback on this machine only and the master is elsewhere. With a
    /// loopback address, a process whose master is elsewhere is reached from this machine only.
    pub bind_address: Option<String>,
    /// The failure domains of this process beside its host: a rack, a zone. The master puts the replicas of an object
    /// where they share as few domains as possible.
    pub domains: FailureDomains,
    /// The `host` or `host:port` to tell others, if that is not the address that this process listens on: behind a
    /// proxy, or in a container whose ports are published. It also names the segments.
    pub advertise_address: Option<String>,
    /// Whether a port in the local hostname may be only a part of the name: if it is taken, the process listens on
    /// one of [`StoreConfig::ports`]. For callers that keep addresses in a metadata server.
    pub port_is_a_name: bool,
    /// Where to serve `/health`, `/metrics` and `/metrics/summary` over HTTP; not served by default.
    pub http: Option<HttpAddress>,
    /// The ports to choose from when the local hostname names none.
    pub ports: RangeInclusive<u16>,
    /// The port to choose first of all, also outside of this range.
    pub preferred_port: Option<u16>,
    /// How long one request to the master may take. A call begins no step later after its start than this, or than
    /// `transfer_timeout` if that is longer; see [`mooncake_ops::Deadline`].
    pub rpc_timeout: Duration,
    /// How long all attempts to reach the master may take together.
    pub rpc_connect_timeout: Duration,
    /// Whether opening waits for a master for as long as it takes. A master that refuses the segment ends the wait
    /// after `rpc_connect_timeout`.
    pub wait_for_master: bool,
    /// How long the whole transfer of one call may take, plus one second for each 16 MiB that it moves.
    pub transfer_timeout: Duration,
    /// How long a transfer waits while no byte moves, before the node counts as unreachable.
    pub transfer_silence: Duration,
    /// How long a put waits for room in a full pool, until leases end or others remove something; zero: it is refused
    /// at once. It waits no longer than a call may take, which is the longer one of `rpc_timeout` and
    /// `transfer_timeout`.
    pub put_wait: Duration,
    /// From how long on a call, or a request that this node serves, is logged as slow; zero: none is.
    pub slow_call: Duration,
    /// The collector of OpenTelemetry that gets the spans of calls, and of requests that this node serves; by default none
    /// does, and no call is traced.
    pub otel_endpoint: Option<Endpoint>,
    /// How long a put that is written part by part may take. The master discards puts after its own
    /// `--put_start_discard_timeout_sec`, so a longer time is of no use.
    pub put_session_timeout: Duration,
    /// How long closing the store waits for other nodes to take its objects over; zero: they do not. The store
    /// catches no signals: a program that a signal ends must close its store, or call [`crate::Store::hand_over`].
    pub drain_timeout: Duration,
    /// Most connections to one node.
    pub lanes_per_peer: usize,
    /// How long a thread polls for a small message before it blocks, if messages arrive fast; zero: it does not poll.
    /// See [`BusyWait`].
    pub busy_poll: Duration,
    /// Whether gets reuse the master's replies on where objects lie, while their leases last.
    pub route_cache: bool,
    /// Whether all bytes that are read are compared with their checksums, also those that came by shared memory or
    /// one-sided. Then nothing is read in place, and no hot cache is used.
    pub verify_reads: bool,
    /// Cache of ranges of other hosts, in memory that all processes of this user on this host share; none by default.
    pub hot_cache: HotCacheConfig,
    /// The transports to use for memory of other processes. This process shares memory with others of its host only
    /// if one of these needs it.
    pub transports: Transports,
    /// The device for one-sided transfers between hosts, if `transports` names `fabric`.
    pub fabric: FabricOptions,
    /// What the protocol `rdma` asks for; `None` for other protocols. See [`StoreConfig::for_rdma`].
    pub rdma: Option<RdmaConfig>,
}

/// What the protocol `rdma` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RdmaConfig {
    /// The NIC, for which libibverbs is asked first.
    pub nic: VerbsOptions,
    /// Whether libfabric is asked otherwise.
    pub or_fabric: bool,
}

/// Where the HTTP server of a store listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpAddress {
    /// Host name or address.
    pub host: String,
    /// Its port; 0: any free one.
    pub port: u16,
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self {
            local_hostname: "localhost".to_owned(),
            master: "127.0.0.1:50051".to_owned(),
            tenant: Tenant::default(),
            only_this_host: false,
            kubernetes: None,
            segment_bytes: 16 << 20,
            segment_path: None,
            segment_reset: false,
            offload: OffloadConfig::default(),
            ssd_prefetch: None,
            local_buffer_bytes: 16 << 20,
            cluster_id: "mooncake_cluster".to_owned(),
            auth_token: Secret::default(),
            roles_file: None,
            tls: TlsConfig::default(),
            bind_address: None,
            domains: FailureDomains::default(),
            http: None,
            advertise_address: None,
            port_is_a_name: false,
            ports: 12_300..=14_300,
            preferred_port: None,
            rpc_timeout: Duration::from_secs(30),
            rpc_connect_timeout: Duration::from_secs(10),
            wait_for_master: false,
            transfer_timeout: Duration::from_secs(30),
            transfer_silence: Duration::from_millis(700),
            put_wait: Duration::ZERO,
            slow_call: Watch::DEFAULT_SLOW,
            otel_endpoint: None,
            put_session_timeout: Duration::from_secs(30),
            drain_timeout: Duration::ZERO,
            lanes_per_peer: 4,
            busy_poll: BusyWait::DEFAULT_LIMIT,
            route_cache: true,
            verify_reads: false,
            hot_cache: HotCacheConfig::default(),
            transports: Transports::default(),
            fabric: FabricOptions::default(),
            rdma: None,
        }
    }
}

impl StoreConfig {
    /// The defaults, changed by these environment variables:
    ///
    /// - `MC_RPC_TIMEOUT_MS`, `MC_RPC_CONNECT_TIMEOUT_MS`, `MC_TRANSFER_SILENCE_MS` (milliseconds),
    ///   `MC_TRANSFER_TIMEOUT`, `MC_STORE_PUT_SESSION_TIMEOUT`, `MOONCAKE_DRAIN_TIMEOUT_SEC` (seconds),
    ///   `MOONCAKE_PUT_WAIT_MS`, `MOONCAKE_SLOW_CALL_MS` (milliseconds), `MOONCAKE_BUSY_POLL_US` (microseconds),
    /// - `MC_TCP_LANES_PER_PEER`, `MC_TCP_BIND_ADDRESS`, `MOONCAKE_ADVERTISE_ADDRESS`, `MC_STORE_CLIENT_MIN_PORT`,
    ///   `MC_STORE_CLIENT_MAX_PORT`, `MOONCAKE_DOMAIN`, `MOONCAKE_TRANSPORTS`, `MOONCAKE_FABRIC_PROVIDER`, `MC_LIBFABRIC_PATH`,
    /// - `MOONCAKE_OTEL_ENDPOINT`,
    /// - `MC_STORE_CLUSTER_ID`, `MOONCAKE_TENANT_ID`, `MOONCAKE_AUTH_TOKEN` or `MOONCAKE_AUTH_TOKEN_FILE`, `MOONCAKE_AUTH_ROLES_FILE`,
    /// - those of [`TlsConfig::from_variables`],
    /// - `MOONCAKE_SEGMENT_PATH`, `MOONCAKE_SEGMENT_RESET`, `MOONCAKE_ROUTE_CACHE`, `MOONCAKE_VERIFY_READS` (0 or 1),
    /// - of the hot cache, `MC_STORE_LOCAL_HOT_CACHE_SIZE`, `MC_STORE_LOCAL_HOT_BLOCK_SIZE` (bytes),
    ///   `MC_STORE_LOCAL_HOT_ADMISSION_THRESHOLD`,
    /// - of the disk, `MOONCAKE_OFFLOAD_ENABLED` (0 or 1), `MOONCAKE_OFFLOAD_FILE_STORAGE_PATH`,
    ///   `MOONCAKE_OFFLOAD_TOTAL_SIZE_LIMIT_BYTES`, `MOONCAKE_OFFLOAD_LOCAL_BUFFER_SIZE_BYTES`,
    ///   `MOONCAKE_OFFLOAD_DISK_EVICTION_HIGH_WATERMARK_RATIO`, `MOONCAKE_OFFLOAD_STORAGE_BACKEND_DESCRIPTOR`,
    /// - of the object store, `MOONCAKE_OBJECT_STORE_URL`, `MOONCAKE_OBJECT_STORE_SIZE_BYTES`.
    ///
    /// In a Kubernetes pod, also the access to its API server.
    ///
    /// # Errors
    /// The first variable whose value is invalid.
    pub fn from_env() -> Result<Self, EnvError> {
        let kubernetes = KubernetesAccess::from_environment();
        Ok(Self { kubernetes, ..Self::from_variables(|name| std::env::var(name).ok())? })
    }

    /// As [`StoreConfig::from_env`], with the environment given as a function from name to value.
    ///
    /// # Errors
    /// As there.
    pub fn from_variables(look_up: impl Fn(&str) -> Option<String>) -> Result<Self, EnvError> {
        const MS: Duration = Duration::from_millis(1);
        const SECOND: Duration = Duration::from_secs(1);
        let mut config = Self::default();
        let variables = Variables::new(look_up);
        for (name, unit, timeout) in [
            ("MC_RPC_TIMEOUT_MS", MS, &mut config.rpc_timeout),
            ("MC_RPC_CONNECT_TIMEOUT_MS", MS, &mut config.rpc_connect_timeout),
            ("MC_TRANSFER_TIMEOUT", SECOND, &mut config.transfer_timeout),
            ("MC_TRANSFER_SILENCE_MS", MS, &mut config.transfer_silence),
            ("MC_STORE_PUT_SESSION_TIMEOUT", SECOND, &mut config.put_session_timeout),
        ] {
            *timeout = variables.number(name)?.map_or(*timeout, |units| unit * units);
        }
        let seconds = |value: &str| value.parse().ok().map(|seconds: u32| SECOND * seconds);
        let drain_timeout =
            variables.parse("MOONCAKE_DRAIN_TIMEOUT_SEC", "a whole number of seconds", seconds)?;
        config.drain_timeout = drain_timeout.unwrap_or(config.drain_timeout);
        let ms = |value: &str| value.parse().ok().map(|ms: u32| MS * ms);
        for (name, time) in [
            ("MOONCAKE_PUT_WAIT_MS", &mut config.put_wait),
            ("MOONCAKE_SLOW_CALL_MS", &mut config.slow_call),
        ] {
            let given = variables.parse(name, "a whole number of milliseconds", ms)?;
            *time = given.unwrap_or(*time);
        }
        if let Some(lanes) = variables.number("MC_TCP_LANES_PER_PEER")? {
            config.lanes_per_peer = lanes as usize;
        }
        let busy_poll =
            variables.parse("MOONCAKE_BUSY_POLL_US", BusyWait::WANTED, BusyWait::parse_limit)?;
        config.busy_poll = busy_poll.unwrap_or(config.busy_poll);
        for (name, is_on) in [
            ("MOONCAKE_ROUTE_CACHE", &mut config.route_cache),
            ("MOONCAKE_VERIFY_READS", &mut config.verify_reads),
            ("MOONCAKE_SEGMENT_RESET", &mut config.segment_reset),
        ] {
            *is_on = variables.switch(name)?.unwrap_or(*is_on);
        }
        let endpoint = |url: &str| url.parse().ok();
        config.otel_endpoint =
            variables.parse("MOONCAKE_OTEL_ENDPOINT", Endpoint::WANTED, endpoint)?;
        config.segment_path = variables.text("MOONCAKE_SEGMENT_PATH").map(PathBuf::from);
        config.hot_cache = hot_cache::from_variables(&variables)?;
        config.offload = OffloadConfig::from_variables(&variables)?;
        let first = variables.port("MC_STORE_CLIENT_MIN_PORT")?.unwrap_or(*config.ports.start());
        let last = variables.port("MC_STORE_CLIENT_MAX_PORT")?.unwrap_or(*config.ports.end());
        config.ports = first..=last;
        config.bind_address = variables.text("MC_TCP_BIND_ADDRESS");
        config.advertise_address = variables.text("MOONCAKE_ADVERTISE_ADDRESS");
        let domains = |value: &str| value.parse().ok();
        let domains = variables.parse("MOONCAKE_DOMAIN", FailureDomains::WANTED, domains)?;
        config.domains = domains.unwrap_or(config.domains);
        config.cluster_id = variables.text("MC_STORE_CLUSTER_ID").unwrap_or(config.cluster_id);
        let tenant = |name: &str| Tenant::named(name).ok();
        let tenant = variables.parse("MOONCAKE_TENANT_ID", NotATenant::WANTED, tenant)?;
        config.tenant = tenant.unwrap_or(config.tenant);
        config.auth_token = token_of_variables(|name| variables.text(name))?.into();
        config.roles_file = variables.text("MOONCAKE_AUTH_ROLES_FILE").map(PathBuf::from);
        config.tls = tls_of_variables(|name| variables.text(name))?;
        let wanted = "one or more of shm, process_vm, fabric and tcp, with commas between them";
        let transports = |value: &str| value.parse().ok();
        let transports = variables.parse("MOONCAKE_TRANSPORTS", wanted, transports)?;
        config.transports = transports.unwrap_or(config.transports);
        config.fabric = FabricOptions::from_variables(|name| variables.text(name));
        Ok(config)
    }

    /// What the protocol `rdma` means: nodes of other hosts are reached one-sided, over a NIC of libibverbs if there is one.
    /// Otherwise over libfabric, if `MOONCAKE_FABRIC_PROVIDER` is set or `MOONCAKE_TRANSPORTS` names `fabric`; otherwise
    /// by TCP, with a warning. A list of transports without `fabric` allows none of it.
    ///
    /// `devices` names the NICs that may be used, with commas between them. If it is empty, or `MC_MS_AUTO_DISC` is 1, all
    /// may be used that `MC_MS_FILTERS` names. See [`VerbsOptions::from_variables`] for the other variables.
    ///
    /// # Errors
    /// The first variable whose value is invalid.
    pub fn for_rdma(
        self,
        devices: &str,
        look_up: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, EnvError> {
        let variables = Variables::new(look_up);
        let nic = VerbsOptions::from_variables(|name| variables.text(name));
        let nic = nic.map_err(|error| EnvError {
            name: error.name,
            value: error.value,
            wanted: error.wanted,
        })?;
        let finds_all = variables.switch("MC_MS_AUTO_DISC")?.unwrap_or(false);
        let nic = if finds_all { nic } else { nic.with_devices(devices) };
        let are_named = variables.text("MOONCAKE_TRANSPORTS").is_some();
        let or_fabric = self.fabric.provider.is_some() || self.transports.prefers(Way::Fabric);
        let transports = if are_named { self.transports } else { self.transports.with_fabric() };
        Ok(Self { transports, rdma: Some(RdmaConfig { nic, or_fabric }), ..self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(variables: &[(&str, &str)]) -> Result<StoreConfig, EnvError> {
        StoreConfig::from_variables(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn an_empty_environment_gives_the_defaults() {
        assert_eq!(with(&[]), Ok(StoreConfig::default()));
        assert_eq!(with(&[("MC_RPC_TIMEOUT_MS", "")]), Ok(StoreConfig::default()));
    }

    #[test]
    fn every_variable_is_taken() {
        let config = with(&[
            ("MC_RPC_TIMEOUT_MS", "1500"),
            ("MC_RPC_CONNECT_TIMEOUT_MS", "250"),
            ("MC_TRANSFER_TIMEOUT", "7"),
            ("MC_TRANSFER_SILENCE_MS", "2500"),
            ("MC_STORE_PUT_SESSION_TIMEOUT", "90"),
            ("MOONCAKE_DRAIN_TIMEOUT_SEC", "12"),
            ("MOONCAKE_PUT_WAIT_MS", "8000"),
            ("MOONCAKE_SLOW_CALL_MS", "250"),
            ("MOONCAKE_OTEL_ENDPOINT", "http://collector:4318"),
            ("MC_TCP_LANES_PER_PEER", "2"),
            ("MC_TCP_BIND_ADDRESS", "10.0.0.5"),
            ("MOONCAKE_ADVERTISE_ADDRESS", "outside.example:7"),
            ("MOONCAKE_DOMAIN", "rack=r7, zone=east"),
            ("MC_STORE_CLUSTER_ID", "blue"),
            ("MOONCAKE_TENANT_ID", "red"),
            ("MOONCAKE_AUTH_TOKEN", "secret"),
            ("MC_STORE_CLIENT_MIN_PORT", "20000"),
            ("MC_STORE_CLIENT_MAX_PORT", "20010"),
            ("MOONCAKE_BUSY_POLL_US", "0"),
            ("MOONCAKE_ROUTE_CACHE", "0"),
            ("MC_STORE_LOCAL_HOT_CACHE_SIZE", "1073741824"),
            ("MC_STORE_LOCAL_HOT_BLOCK_SIZE", "16777216"),
            ("MC_STORE_LOCAL_HOT_ADMISSION_THRESHOLD", "3"),
            ("MOONCAKE_SEGMENT_PATH", "/dev/shm/a segment"),
            ("MOONCAKE_SEGMENT_RESET", "true"),
            ("MOONCAKE_TRANSPORTS", "process_vm,tcp"),
        ]);
        let expected = StoreConfig {
            rpc_timeout: Duration::from_millis(1500),
            rpc_connect_timeout: Duration::from_millis(250),
            transfer_timeout: Duration::from_secs(7),
            transfer_silence: Duration::from_millis(2500),
            put_session_timeout: Duration::from_secs(90),
            put_wait: Duration::from_secs(8),
            slow_call: Duration::from_millis(250),
            otel_endpoint: Some("http://collector:4318".parse().expect("a URL")),
            drain_timeout: Duration::from_secs(12),
            lanes_per_peer: 2,
            bind_address: Some("10.0.0.5".to_owned()),
            advertise_address: Some("outside.example:7".to_owned()),
            domains: "rack=r7,zone=east".parse().expect("two domains"),
            cluster_id: "blue".to_owned(),
            tenant: Tenant::named("red").expect("a name"),
            auth_token: "secret".into(),
            ports: 20_000..=20_010,
            busy_poll: Duration::ZERO,
            route_cache: false,
            hot_cache: HotCacheConfig {
                bytes: 1 << 30,
                longest_bytes: Some(16 << 20),
                admission_reads: 3,
                folder: None,
            },
            segment_path: Some("/dev/shm/a segment".into()),
            segment_reset: true,
            transports: "process_vm,tcp".parse().expect("names of transports"),
            ..StoreConfig::default()
        };
        assert_eq!(config, Ok(expected));
    }

    #[test]
    fn a_token_comes_from_a_variable_or_a_file_and_not_from_both() {
        let path = std::env::temp_dir().join(format!("mooncake-variable-{}", std::process::id()));
        std::fs::write(&path, "secret\n").expect("it can be written");
        let file = ("MOONCAKE_AUTH_TOKEN_FILE", path.to_str().expect("text"));
        let token = |variables: &[_]| with(variables).map(|config| config.auth_token);
        assert_eq!(token(&[file]), Ok("secret".into()));
        let both = token(&[file, ("MOONCAKE_AUTH_TOKEN", "other")]).expect_err("which is it");
        assert_eq!(both.wanted, "unset, or else MOONCAKE_AUTH_TOKEN: one of them gives the token");
        std::fs::remove_file(path).expect("it is there");
    }

    #[test]
    fn values_that_make_no_sense_are_named() {
        for (name, value, wanted) in [
            ("MC_RPC_TIMEOUT_MS", "soon", "a whole number above zero"),
            ("MC_RPC_TIMEOUT_MS", "0", "a whole number above zero"),
            ("MC_TRANSFER_TIMEOUT", "-1", "a whole number above zero"),
            ("MOONCAKE_DRAIN_TIMEOUT_SEC", "-1", "a whole number of seconds"),
            ("MOONCAKE_PUT_WAIT_MS", "8s", "a whole number of milliseconds"),
            ("MOONCAKE_SLOW_CALL_MS", "-1", "a whole number of milliseconds"),
            ("MOONCAKE_OTEL_ENDPOINT", "collector:4318", Endpoint::WANTED),
            ("MC_STORE_CLIENT_MIN_PORT", "70000", "a port from 1 to 65535"),
            ("MOONCAKE_BUSY_POLL_US", "1001", BusyWait::WANTED),
            ("MOONCAKE_TENANT_ID", "_all", NotATenant::WANTED),
            ("MOONCAKE_ROUTE_CACHE", "2", "0 or 1"),
            ("MOONCAKE_SEGMENT_RESET", "perhaps", "0 or 1"),
            (
                "MOONCAKE_AUTH_TOKEN_FILE",
                "/nowhere/token",
                "a file that can be read, that no other user may write, and that holds the token, of at most 512 bytes",
            ),
            (
                "MOONCAKE_TRANSPORTS",
                "shm,rdma",
                "one or more of shm, process_vm, fabric and tcp, with commas between them",
            ),
        ] {
            let error = EnvError { name, value: value.to_owned(), wanted };
            assert_eq!(with(&[(name, value)]), Err(error));
        }
    }
}
