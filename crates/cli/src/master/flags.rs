//! The flags of `mooncake_master`. Names and defaults are those that operators of the C++ store know.

use clap::{Args, Parser, ValueEnum};
use mooncake_types::{BusyWait, ByteSize, Secret};

use super::kv_events::KvEventFlags;
use super::tenants::TenantFlags;
use crate::config_file::UnknownKey;
use crate::logging::{LogFormat, LogLevel};
use crate::otel::OtelEndpoint;
use crate::quantity::{Milliseconds, Switch};
use crate::tls_flags::TlsFlags;

/// The master of a Mooncake Store: it knows which objects exist and where their bytes lie.
#[derive(Clone, Debug, Parser)]
#[command(name = "mooncake_master", version, rename_all = "snake_case", max_term_width = 110)]
pub struct MasterFlags {
    /// JSON or YAML file whose keys are the names of flags.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "FILE")]
    pub config_path: String,

    /// Least level of log messages, which go to standard error.
    #[arg(long, value_enum, default_value = "info", value_name = "LEVEL")]
    pub log_level: LogLevel,

    /// How log messages are written: lines for people, or a JSON object on each line.
    #[arg(long, value_enum, default_value = "text", value_name = "FORMAT")]
    pub log_format: LogFormat,

    /// Log a request, or a turn of the master's own work, that takes at least this long, in milliseconds; 0: none. Also
    /// read from MOONCAKE_SLOW_CALL_MS.
    #[arg(long, default_value_t = 1000, value_name = "MILLISECONDS")]
    pub slow_call_ms: u32,

    /// Collector of OpenTelemetry, like http://collector:4318, that gets the spans of requests whose callers are traced; empty:
    /// none. Also read from MOONCAKE_OTEL_ENDPOINT.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "URL", value_parser = crate::otel::parse)]
    pub otel_endpoint: OtelEndpoint,

    /// TLS.
    #[command(flatten)]
    pub tls: TlsFlags,

    /// RPC port and its connections.
    #[command(flatten)]
    pub rpc: RpcFlags,

    /// Admin HTTP server.
    #[command(flatten)]
    pub admin: AdminFlags,

    /// Metadata server.
    #[command(flatten)]
    pub metadata: MetadataFlags,

    /// Leadership.
    #[command(flatten)]
    pub leadership: LeadershipFlags,

    /// Objects.
    #[command(flatten)]
    pub objects: ObjectFlags,

    /// Pool.
    #[command(flatten)]
    pub pool: PoolFlags,

    /// Tenants.
    #[command(flatten)]
    pub tenants: TenantFlags,

    /// Copy and move tasks.
    #[command(flatten)]
    pub tasks: TaskFlags,

    /// Replicas.
    #[command(flatten)]
    pub replicas: ReplicaFlags,

    /// Disks.
    #[command(flatten)]
    pub disks: DiskFlags,

    /// KV events.
    #[command(flatten)]
    pub kv_events: KvEventFlags,

    /// No effect.
    #[command(flatten)]
    pub accepted: AcceptedFlags,

    /// The flags that were given and have no effect.
    #[arg(skip)]
    pub without_effect: Vec<String>,

    /// The keys of the configuration file that are not names of flags.
    #[arg(skip)]
    pub unknown_keys: Vec<UnknownKey>,
}

/// See [`MasterFlags`].
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "RPC", rename_all = "snake_case")]
pub struct RpcFlags {
    /// Port for clients and storage nodes; 0: the value of --port.
    #[arg(long, default_value_t = 0, value_name = "PORT")]
    pub rpc_port: u16,
    /// Older name of --rpc_port, used while that is 0.
    #[arg(long, default_value_t = 50051, value_name = "PORT")]
    pub port: u16,
    /// Address to listen on.
    #[arg(long, default_value = "0.0.0.0", value_name = "HOST")]
    pub rpc_address: String,
    /// Network interface to take the address from, instead of --rpc_address.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NAME")]
    pub rpc_interface: String,
    /// Close a connection that sent nothing for this long, in seconds; 0: never.
    #[arg(long, default_value_t = 0, value_name = "SECONDS")]
    pub rpc_conn_timeout_seconds: u64,
    /// Send small replies without delay.
    #[arg(long, num_args = 0..=1, default_value = "true", default_missing_value = "true", value_name = "BOOL")]
    pub rpc_enable_tcp_no_delay: Switch,
    /// Most connections served at a time.
    #[arg(long, default_value_t = mooncake_master::DEFAULT_MAX_CONNECTIONS, value_name = "COUNT")]
    pub max_connections: usize,
    /// How long a thread polls for the next request before it blocks, while requests come fast, in microseconds up to
    /// 1000; 0: not at all. Also read from MOONCAKE_BUSY_POLL_US.
    #[arg(long, default_value_t = BusyWait::DEFAULT_LIMIT.as_micros() as u64, value_name = "MICROSECONDS",
        value_parser = clap::value_parser!(u64).range(..=BusyWait::LONGEST_LIMIT_US))]
    pub busy_poll_us: u64,
    /// Name of the cluster. Clients of other clusters are refused.
    #[arg(long, default_value = "mooncake_cluster", value_name = "NAME")]
    pub cluster_id: String,
    /// Secret that clients must send; empty: none. Also read from MOONCAKE_AUTH_TOKEN.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "TOKEN")]
    pub auth_token: Secret,
    /// File that holds this secret. Other users of the host can see a secret in a command line. Also read from
    /// MOONCAKE_AUTH_TOKEN_FILE.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "FILE")]
    pub auth_token_file: String,
    /// File with tokens of members that may do less than those that know this secret: a line for each, such as
    /// read,write TOKEN. Nodes have the same file. Also read from MOONCAKE_AUTH_ROLES_FILE.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "FILE")]
    pub auth_roles_file: String,
    /// Say nothing at the start about ports that other hosts reach without a token. Also read from MOONCAKE_INSECURE.
    #[arg(long, num_args = 0..=1, default_value = "false", default_missing_value = "true", value_name = "BOOL")]
    pub insecure: Switch,
}

/// See [`MasterFlags`].
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Admin HTTP and metrics", rename_all = "snake_case")]
pub struct AdminFlags {
    /// Port of the admin HTTP server.
    #[arg(long, default_value_t = 9003, value_name = "PORT")]
    pub metrics_port: u16,
    /// Address of the admin HTTP server; empty: where --rpc_address or --rpc_interface has the RPC port listen.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "HOST")]
    pub metrics_host: String,
    /// Log a line of metrics every 10 s.
    #[arg(long, num_args = 0..=1, default_value = "true", default_missing_value = "true", value_name = "BOOL")]
    pub enable_metric_reporting: Switch,
}

/// See [`MasterFlags`].
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Metadata server", rename_all = "snake_case")]
pub struct MetadataFlags {
    /// Serve the metadata of transfer engines over HTTP. Clients of the store do not need it. Enabled if its port or
    /// address is given.
    #[arg(long, num_args = 0..=1, default_value = "false", default_missing_value = "true", value_name = "BOOL")]
    pub enable_http_metadata_server: Switch,
    /// Port of the metadata server.
    #[arg(long, default_value_t = 8080, value_name = "PORT")]
    pub http_metadata_server_port: u16,
    /// Address of the metadata server; empty: where --rpc_address or --rpc_interface has the RPC port listen.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "HOST")]
    pub http_metadata_server_host: String,
    /// Secret that requests to the metadata server must name; empty: none. Also read from MC_METADATA_HTTP_TOKEN.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "TOKEN")]
    pub http_metadata_server_token: Secret,
    /// Delete the metadata of a client when it dies.
    #[arg(long, num_args = 0..=1, default_value = "false", default_missing_value = "true", value_name = "BOOL")]
    pub enable_metadata_cleanup_on_timeout: Switch,
    /// Text between mooncake/ and the rest in the metadata keys of this deployment; empty: nothing. Also read from
    /// MC_METADATA_CLUSTER_ID.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NAME")]
    pub metadata_cluster_id: String,
}

/// See [`MasterFlags`].
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "High availability", rename_all = "snake_case")]
pub struct LeadershipFlags {
    /// Be one of several masters, of which one leads. Clients must be able to reach this master at --rpc_address.
    #[arg(long, num_args = 0..=1, default_value = "false", default_missing_value = "true", value_name = "BOOL")]
    pub enable_ha: Switch,
    /// Kind of coordinator that elects the leader.
    #[arg(long, value_enum, default_value = "etcd", value_name = "NAME")]
    pub ha_backend_type: BackendName,
    /// Address of the coordinator: HOST:PORT;HOST:PORT of etcd, HOST:PORT/DATABASE of Redis, NAMESPACE/LEASE in
    /// Kubernetes, or a folder that masters and clients of one host share. The scheme in front may be left out.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "ADDRESS")]
    pub ha_backend_connstring: String,
    /// Older name of --ha_backend_connstring for etcd, used while that is empty. Either needs --enable_ha.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "HOST:PORT;...")]
    pub etcd_endpoints: String,
    /// A leader that is silent for this long is replaced, in seconds.
    #[arg(long, visible_alias = "ha_leader_lease_ttl_sec", default_value_t = 5, value_name = "SECONDS",
        value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub ha_lease_ttl_sec: u64,
    /// While this master is a standby, follow the ledgers of nodes, so that it serves sooner when it leads. It then
    /// needs as much memory as a leader.
    #[arg(long, num_args = 0..=1, default_value = "true", default_missing_value = "true", value_name = "BOOL")]
    pub ha_warm_standby: Switch,
    /// Folder in which a single master keeps its state between starts; it must be writable. none: it keeps no state.
    /// By default $XDG_STATE_HOME/mooncake or ~/.local/state/mooncake, if that can be written.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "FOLDER")]
    pub state_dir: String,
    /// Name of this master's pod. While the master leads, it has the label mooncake.io/store-role=leader. Only with
    /// --enable_ha. Also read from POD_NAME.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NAME")]
    pub pod_name: String,
    /// Namespace of this pod. Also read from POD_NAMESPACE.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NAMESPACE")]
    pub pod_namespace: String,
}

/// Values of `--ha_backend_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum BackendName {
    /// An etcd cluster.
    Etcd,
    /// A Redis server.
    Redis,
    /// A lease object of Kubernetes.
    K8s,
    /// A folder of one host.
    File,
}

/// See [`MasterFlags`].
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Objects", rename_all = "snake_case")]
pub struct ObjectFlags {
    /// How long a read protects an object from eviction and removal: milliseconds, or like 5s. At least 1 ms, since
    /// what no lease protects cannot be read.
    #[arg(long, default_value = "5s", value_name = "DURATION")]
    pub default_kv_lease_ttl: Milliseconds,
    /// How long a soft pin lasts if the put does not say so: milliseconds, or like 30m.
    #[arg(long, default_value = "30m", value_name = "DURATION")]
    pub default_kv_soft_pin_ttl: Milliseconds,
    /// Longest soft pin that a put may ask for: milliseconds, or like 24h.
    #[arg(long, default_value = "168h", value_name = "DURATION")]
    pub max_kv_soft_pin_ttl: Milliseconds,
    /// Evict soft-pinned objects when nothing else is left.
    #[arg(long, num_args = 0..=1, default_value = "true", default_missing_value = "true", value_name = "BOOL")]
    pub allow_evict_soft_pinned_objects: Switch,
    /// Order of eviction. `mooncake sim` compares the policies.
    #[arg(long, default_value = "adaptive", value_name = "NAME")]
    pub eviction_policy: EvictionName,
    /// Share of a segment that an eviction frees beyond the watermark, 0 to 1.
    #[arg(long, default_value_t = 0.05, value_name = "RATIO")]
    pub eviction_ratio: f64,
    /// Used share of a segment above which eviction starts, 0 to 1; 1: only when a put finds no room.
    #[arg(long, default_value_t = 1.0, value_name = "RATIO")]
    pub eviction_high_watermark_ratio: f64,
    /// A put that has not ended releases its key after this time, in seconds.
    #[arg(long, default_value_t = 30, value_name = "SECONDS")]
    pub put_start_discard_timeout_sec: u64,
    /// A put that has not ended releases its memory this long after its start, in seconds.
    #[arg(long, default_value_t = 600, value_name = "SECONDS")]
    pub put_start_release_timeout_sec: u64,
}

/// See [`MasterFlags`].
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Pool", rename_all = "snake_case")]
pub struct PoolFlags {
    /// How segments are divided into ranges.
    #[arg(long, value_enum, default_value = "offset", value_name = "NAME")]
    pub memory_allocator: AllocatorName,
    /// Choice of the segment for a replica.
    #[arg(long, value_enum, default_value = "random", value_name = "NAME")]
    pub allocation_strategy: StrategyName,
    /// Objects longer than this are striped over several segments, in bytes, or like 64MB. 0: only objects that are
    /// longer than every free range.
    #[arg(long, default_value = "0", value_name = "SIZE")]
    pub stripe_threshold_bytes: ByteSize,
    /// A client that is silent for this long is out of sight, in seconds. It is dead once it has been out of sight
    /// for a lease, and for --client_suspicion_ttl_sec.
    #[arg(long, default_value_t = 10, value_name = "SECONDS")]
    pub client_ttl: u64,
    /// Newer name of --client_ttl, which it overrides.
    #[arg(long, value_name = "SECONDS")]
    pub client_active_ttl_sec: Option<u64>,
    /// How long a client that is out of sight may come back before it is dead, in seconds. By default as long as
    /// --client_active_ttl_sec if that is given, otherwise 0.
    #[arg(long, value_name = "SECONDS")]
    pub client_suspicion_ttl_sec: Option<u64>,
}

/// See [`MasterFlags`].
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Copy and move tasks", rename_all = "snake_case")]
pub struct TaskFlags {
    /// Most ended tasks that are remembered.
    #[arg(long, default_value_t = 10_000, value_name = "COUNT")]
    pub max_total_finished_tasks: usize,
    /// Most tasks that wait for a client.
    #[arg(long, default_value_t = 10_000, value_name = "COUNT")]
    pub max_total_pending_tasks: usize,
    /// Most tasks that clients run at a time.
    #[arg(long, default_value_t = 10_000, value_name = "COUNT")]
    pub max_total_processing_tasks: usize,
    /// A task that no client fetches for this long fails, in seconds; 0: never.
    #[arg(long, default_value_t = 300, value_name = "SECONDS")]
    pub pending_task_timeout_sec: u64,
    /// A task that a client runs for this long fails, in seconds; 0: never.
    #[arg(long, default_value_t = 300, value_name = "SECONDS")]
    pub processing_task_timeout_sec: u64,
    /// How often a task without room for its replicas is retried.
    #[arg(long, default_value_t = 10, value_name = "COUNT")]
    pub max_retry_attempts: u32,
}

/// See [`MasterFlags`].
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Replicas", rename_all = "snake_case")]
pub struct ReplicaFlags {
    /// Most bytes per second for the repair of lost replicas, in bytes, or like 1GB; 0: no repair.
    #[arg(long, default_value = "256MB", value_name = "SIZE")]
    pub repair_bytes_per_second: ByteSize,
    /// Whether objects that are read often get more replicas, or are only logged.
    #[arg(long, value_enum, default_value = "off", value_name = "MODE")]
    pub dynamic_replication_mode: ReplicationName,
    /// Length of the window in which reads are counted, in seconds.
    #[arg(long, default_value_t = 10, value_name = "SECONDS")]
    pub dynamic_replication_heat_window_seconds: u32,
    /// Reads per second from which on an object counts as read often.
    #[arg(long, default_value_t = 0.8, value_name = "RATE")]
    pub dynamic_replication_admission_qps_threshold: f64,
    /// Most replicas of an object that is read often.
    #[arg(long, default_value_t = 2, value_name = "COUNT")]
    pub dynamic_replication_max_memory_replicas: u32,
}

/// See [`MasterFlags`].
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Disks", rename_all = "snake_case")]
pub struct DiskFlags {
    /// Copy objects to the disks of nodes.
    #[arg(long, num_args = 0..=1, default_value = "false", default_missing_value = "true", value_name = "BOOL")]
    pub enable_offload: Switch,
    /// Copy objects only when they are chosen for eviction, instead of after their put. Needs --enable_offload.
    #[arg(long, num_args = 0..=1, default_value = "false", default_missing_value = "true", value_name = "BOOL")]
    pub offload_on_evict: Switch,
    /// Evict objects without a copy while the queue of copies to disks is full. Otherwise puts wait. Needs
    /// --offload_on_evict.
    #[arg(long, num_args = 0..=1, default_value = "false", default_missing_value = "true", value_name = "BOOL")]
    pub offload_force_evict: Switch,
    /// Most copies to disks that run or wait for their nodes, up to 100000000.
    #[arg(long, default_value_t = 50_000, value_name = "COUNT")]
    pub offloading_queue_limit: usize,
    /// Share of this limit for copies of objects that are chosen for eviction, 0 to 1. One such copy is always
    /// allowed.
    #[arg(long, default_value_t = 0.5, value_name = "RATIO")]
    pub offload_cap_ratio: f64,
    /// Copy objects that are only on disks to memory when they are read often.
    #[arg(long, num_args = 0..=1, default_value = "false", default_missing_value = "true", value_name = "BOOL")]
    pub promotion_on_hit: Switch,
    /// How many reads within ten minutes count as often.
    #[arg(long, default_value_t = 2, value_name = "COUNT")]
    pub promotion_admission_threshold: u32,
    /// Most copies to memory that run or wait for their nodes, up to 100000000.
    #[arg(long, default_value_t = 50_000, value_name = "COUNT")]
    pub promotion_queue_limit: usize,
    /// Directory that all hosts share, in which nodes keep a copy of each object as a file; empty: no copies.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "PATH")]
    pub root_fs_dir: String,
    /// Most bytes that each node keeps in that directory, in bytes, or like 1TB; 0: nine tenths of the filesystem.
    #[arg(long, default_value = "0", value_name = "SIZE")]
    pub quota_bytes: ByteSize,
    /// Another name of --quota_bytes. The lower limit of both counts.
    #[arg(
        long,
        default_value = "9223372036854775807",
        hide_default_value = true,
        value_name = "SIZE"
    )]
    pub global_file_segment_size: ByteSize,
    /// Evict the least recently used files from that directory when there is no room. Otherwise nothing more is
    /// written there.
    #[arg(long, num_args = 0..=1, default_value = "true", default_missing_value = "true", value_name = "BOOL")]
    pub enable_disk_eviction: Switch,
    /// How long the objects on the disk of a dead client are kept for its next process, in seconds.
    #[arg(long, default_value_t = 600, value_name = "SECONDS")]
    pub disk_ttl: u64,
}

/// Values of `--dynamic_replication_mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum ReplicationName {
    /// Reads are not counted.
    Off,
    /// Objects that are read often are counted and logged.
    Observe,
    /// Objects that are read often get more replicas.
    Enforce,
}

/// Values of `--memory_allocator`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum AllocatorName {
    /// Ranges of any length.
    Offset,
    /// Slabs of equal pieces.
    Cachelib,
}

/// Values of `--eviction_policy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum EvictionName {
    /// Objects with the least value, which the policy learns from their use.
    Adaptive,
    /// The least recently used objects.
    Lru,
    /// Objects that were used once and not again.
    #[value(name = "s3fifo")]
    S3Fifo,
    /// Objects that were not used since the policy last visited them.
    Sieve,
}

/// Values of `--allocation_strategy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum StrategyName {
    /// Any segment with room.
    Random,
    /// The emptier of two segments. All segments fill to the same share, whatever their lengths.
    FreeRatioFirst,
    /// Segments on the writer's host, if it lends any. Then those on the hosts that follow by name.
    LocalFirst,
    /// Of the C++ package; taken for `free_ratio_first`.
    #[value(hide = true)]
    SsdFreeRatioFirst,
    /// Of the C++ package; taken for `random`.
    #[value(hide = true)]
    Cxl,
}

/// Flags of existing start scripts, which have no effect here.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Accepted, no effect", rename_all = "snake_case")]
pub struct AcceptedFlags {
    /// RPC workers; one thread serves all requests here.
    #[arg(long, default_value_t = 0, value_name = "COUNT")]
    pub rpc_thread_num: u32,
    /// Promotions begun per heartbeat; here none waits for a heartbeat.
    #[arg(long, default_value_t = 1, value_name = "COUNT")]
    pub promotion_max_per_heartbeat: u32,
    /// Older name of --rpc_thread_num.
    #[arg(long, default_value_t = 16, value_name = "COUNT")]
    pub max_threads: u32,
}
