//! The flags of `mooncake_master`. Names and defaults are those that operators of the C++ store know.

use clap::{Args, Parser, ValueEnum};
use mooncake_types::{BusyWait, ByteSize};

use super::kv_events::KvEventFlags;
use crate::logging::LogLevel;
use crate::quantity::{Milliseconds, Switch};

/// The master of a Mooncake Store: it knows which objects exist and where their bytes lie.
#[derive(Clone, Debug, Parser)]
#[command(name = "mooncake_master", version, rename_all = "snake_case", max_term_width = 110)]
pub struct MasterFlags {
    /// JSON or YAML file whose keys are the names of flags.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "FILE")]
    pub config_path: String,

    /// How much is logged, to standard error.
    #[arg(long, value_enum, default_value = "info", value_name = "LEVEL")]
    pub log_level: LogLevel,

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

    /// The flags that were given and have none.
    #[arg(skip)]
    pub without_effect: Vec<String>,
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
    /// Send small replies at once.
    #[arg(long, num_args = 0..=1, default_value = "true", default_missing_value = "true", value_name = "BOOL")]
    pub rpc_enable_tcp_no_delay: Switch,
    /// Most connections served at a time.
    #[arg(long, default_value_t = mooncake_master::DEFAULT_MAX_CONNECTIONS, value_name = "COUNT")]
    pub max_connections: usize,
    /// How long to look for the next request before sleeping while requests come fast, in microseconds up to 1000; 0:
    /// not at all. Also read from MOONCAKE_BUSY_POLL_US.
    #[arg(long, default_value_t = BusyWait::DEFAULT_LIMIT.as_micros() as u64, value_name = "MICROSECONDS",
        value_parser = clap::value_parser!(u64).range(..=BusyWait::LONGEST_LIMIT_US))]
    pub busy_poll_us: u64,
    /// Name of the cluster; clients of another are refused.
    #[arg(long, default_value = "mooncake_cluster", value_name = "NAME")]
    pub cluster_id: String,
    /// Word that clients must know; empty: none. Also read from MOONCAKE_AUTH_TOKEN.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "TOKEN")]
    pub auth_token: String,
    /// File that holds this word, which others of the host can see in a command line. Also read from
    /// MOONCAKE_AUTH_TOKEN_FILE.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "FILE")]
    pub auth_token_file: String,
}

/// See [`MasterFlags`].
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Admin HTTP and metrics", rename_all = "snake_case")]
pub struct AdminFlags {
    /// Port of the admin HTTP server.
    #[arg(long, default_value_t = 9003, value_name = "PORT")]
    pub metrics_port: u16,
    /// Address of the admin HTTP server.
    #[arg(long, default_value = "0.0.0.0", value_name = "HOST")]
    pub metrics_host: String,
    /// Log a line of metrics every 10 s.
    #[arg(long, num_args = 0..=1, default_value = "true", default_missing_value = "true", value_name = "BOOL")]
    pub enable_metric_reporting: Switch,
}

/// See [`MasterFlags`].
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Metadata server", rename_all = "snake_case")]
pub struct MetadataFlags {
    /// Serve the metadata of transfer engines over HTTP. Clients of the store need none. True if its port or address is given.
    #[arg(long, num_args = 0..=1, default_value = "false", default_missing_value = "true", value_name = "BOOL")]
    pub enable_http_metadata_server: Switch,
    /// Port of the metadata server.
    #[arg(long, default_value_t = 8080, value_name = "PORT")]
    pub http_metadata_server_port: u16,
    /// Address of the metadata server.
    #[arg(long, default_value = "0.0.0.0", value_name = "HOST")]
    pub http_metadata_server_host: String,
    /// Forget what a client published when it dies.
    #[arg(long, num_args = 0..=1, default_value = "false", default_missing_value = "true", value_name = "BOOL")]
    pub enable_metadata_cleanup_on_timeout: Switch,
    /// What the keys of this deployment have between mooncake/ and the rest; empty: nothing. Also read from
    /// MC_METADATA_CLUSTER_ID.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NAME")]
    pub metadata_cluster_id: String,
}

/// See [`MasterFlags`].
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "High availability", rename_all = "snake_case")]
pub struct LeadershipFlags {
    /// Be one of several masters, of which one leads. Clients must reach this one under --rpc_address.
    #[arg(long, num_args = 0..=1, default_value = "false", default_missing_value = "true", value_name = "BOOL")]
    pub enable_ha: Switch,
    /// What elects the leader.
    #[arg(long, value_enum, default_value = "etcd", value_name = "NAME")]
    pub ha_backend_type: BackendName,
    /// Where that is: HOST:PORT;HOST:PORT of etcd, HOST:PORT/DATABASE of Redis, NAMESPACE/LEASE in Kubernetes, or a folder
    /// that masters and clients of one host share; the scheme before it may be left out.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "ADDRESS")]
    pub ha_backend_connstring: String,
    /// Older name of --ha_backend_connstring for etcd, used while that is empty.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "HOST:PORT;...")]
    pub etcd_endpoints: String,
    /// A leader that is not heard of for this long is replaced, in seconds.
    #[arg(long, default_value_t = 5, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub ha_lease_ttl_sec: u64,
    /// While this master stands by, follow what the nodes hold, so that it serves sooner when it leads. It then needs as much
    /// memory as a leader.
    #[arg(long, num_args = 0..=1, default_value = "true", default_missing_value = "true", value_name = "BOOL")]
    pub ha_warm_standby: Switch,
    /// Folder for what a master alone remembers from start to start; none: nothing is remembered. By default
    /// $XDG_STATE_HOME/mooncake or ~/.local/state/mooncake.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "FOLDER")]
    pub state_dir: String,
}

/// Values of `--ha_backend_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum BackendName {
    /// A cluster of etcd.
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
    /// How long a read protects an object from eviction and removal: milliseconds, or like 5s.
    #[arg(long, default_value = "5s", value_name = "DURATION")]
    pub default_kv_lease_ttl: Milliseconds,
    /// How long a soft pin lasts where a put does not say: milliseconds, or like 30m.
    #[arg(long, default_value = "30m", value_name = "DURATION")]
    pub default_kv_soft_pin_ttl: Milliseconds,
    /// Longest soft pin that a put may ask for: milliseconds, or like 24h.
    #[arg(long, default_value = "24h", value_name = "DURATION")]
    pub max_kv_soft_pin_ttl: Milliseconds,
    /// Evict soft-pinned objects when nothing else is left.
    #[arg(long, num_args = 0..=1, default_value = "true", default_missing_value = "true", value_name = "BOOL")]
    pub allow_evict_soft_pinned_objects: Switch,
    /// Which objects go first when there is no room. `mooncake sim` compares them.
    #[arg(long, default_value = "adaptive", value_name = "NAME")]
    pub eviction_policy: EvictionName,
    /// Share of a segment that an eviction frees beyond the watermark, 0 to 1.
    #[arg(long, default_value_t = 0.05, value_name = "RATIO")]
    pub eviction_ratio: f64,
    /// Used share of a segment above which eviction starts, 0 to 1; 1: only when a put finds no room.
    #[arg(long, default_value_t = 1.0, value_name = "RATIO")]
    pub eviction_high_watermark_ratio: f64,
    /// A put that has not ended after this long no longer holds its key, in seconds.
    #[arg(long, default_value_t = 30, value_name = "SECONDS")]
    pub put_start_discard_timeout_sec: u64,
    /// The memory of such a put is free this long after its start, in seconds.
    #[arg(long, default_value_t = 600, value_name = "SECONDS")]
    pub put_start_release_timeout_sec: u64,
}

/// See [`MasterFlags`].
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Pool", rename_all = "snake_case")]
pub struct PoolFlags {
    /// How memory is carved out of segments.
    #[arg(long, value_enum, default_value = "offset", value_name = "NAME")]
    pub memory_allocator: AllocatorName,
    /// Which segment a replica goes to.
    #[arg(long, value_enum, default_value = "random", value_name = "NAME")]
    pub allocation_strategy: StrategyName,
    /// Objects longer than this are striped over several segments, bytes or like 64MB; 0: only those for which no
    /// segment has a range that large.
    #[arg(long, default_value = "0", value_name = "SIZE")]
    pub stripe_threshold_bytes: ByteSize,
    /// A client that has not been heard of for this long is dead, in seconds.
    #[arg(long, default_value_t = 10, value_name = "SECONDS")]
    pub client_ttl: u64,
}

/// See [`MasterFlags`].
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Copy and move tasks", rename_all = "snake_case")]
pub struct TaskFlags {
    /// Ended tasks that can still be asked about.
    #[arg(long, default_value_t = 10_000, value_name = "COUNT")]
    pub max_total_finished_tasks: usize,
    /// Most tasks that wait to be fetched.
    #[arg(long, default_value_t = 10_000, value_name = "COUNT")]
    pub max_total_pending_tasks: usize,
    /// Most tasks that clients work on at a time.
    #[arg(long, default_value_t = 10_000, value_name = "COUNT")]
    pub max_total_processing_tasks: usize,
    /// A task that no client fetched for this long has failed, in seconds; 0: never.
    #[arg(long, default_value_t = 300, value_name = "SECONDS")]
    pub pending_task_timeout_sec: u64,
    /// A task that a client has worked on for this long has failed, in seconds; 0: never.
    #[arg(long, default_value_t = 300, value_name = "SECONDS")]
    pub processing_task_timeout_sec: u64,
    /// How often a task that finds no room for its replicas is tried again.
    #[arg(long, default_value_t = 10, value_name = "COUNT")]
    pub max_retry_attempts: u32,
}

/// See [`MasterFlags`].
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Replicas", rename_all = "snake_case")]
pub struct ReplicaFlags {
    /// Most bytes per second that the repair of lost replicas copies, bytes or like 1GB; 0: no repair.
    #[arg(long, default_value = "256MB", value_name = "SIZE")]
    pub repair_bytes_per_second: ByteSize,
    /// Whether objects that are read often get more replicas.
    #[arg(long, value_enum, default_value = "off", value_name = "MODE")]
    pub dynamic_replication_mode: ReplicationName,
    /// How long reads are counted before the count begins anew, in seconds.
    #[arg(long, default_value_t = 10, value_name = "SECONDS")]
    pub dynamic_replication_heat_window_seconds: u32,
    /// Reads per second from which on an object is read often.
    #[arg(long, default_value_t = 0.8, value_name = "RATE")]
    pub dynamic_replication_admission_qps_threshold: f64,
    /// Objects with that many replicas get no more because they are read often.
    #[arg(long, default_value_t = 2, value_name = "COUNT")]
    pub dynamic_replication_max_memory_replicas: u32,
}

/// See [`MasterFlags`].
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Disks", rename_all = "snake_case")]
pub struct DiskFlags {
    /// Copy objects to disks of their nodes.
    #[arg(long, num_args = 0..=1, default_value = "false", default_missing_value = "true", value_name = "BOOL")]
    pub enable_offload: Switch,
    /// Copy them only when eviction chooses them, instead of once they are put. Needs --enable_offload.
    #[arg(long, num_args = 0..=1, default_value = "false", default_missing_value = "true", value_name = "BOOL")]
    pub offload_on_evict: Switch,
    /// Evict objects without a copy while as many are on their way to disks as may be; otherwise puts wait. Needs
    /// --offload_on_evict.
    #[arg(long, num_args = 0..=1, default_value = "false", default_missing_value = "true", value_name = "BOOL")]
    pub offload_force_evict: Switch,
    /// Most copies to disks that are under way or wait for their nodes, up to 100000000.
    #[arg(long, default_value_t = 50_000, value_name = "COUNT")]
    pub offloading_queue_limit: usize,
    /// Share of these that may be copies of what eviction chose, 0 to 1. One may always be.
    #[arg(long, default_value_t = 0.5, value_name = "RATIO")]
    pub offload_cap_ratio: f64,
    /// Copy objects that lie on disks alone to memory when they are read often enough.
    #[arg(long, num_args = 0..=1, default_value = "false", default_missing_value = "true", value_name = "BOOL")]
    pub promotion_on_hit: Switch,
    /// How many reads are, within ten minutes.
    #[arg(long, default_value_t = 2, value_name = "COUNT")]
    pub promotion_admission_threshold: u32,
    /// Most copies to memory that are under way or wait for their nodes, up to 100000000.
    #[arg(long, default_value_t = 50_000, value_name = "COUNT")]
    pub promotion_queue_limit: usize,
    /// Directory that all hosts share, in which nodes keep a copy of each object as a file; empty: they keep none.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "PATH")]
    pub root_fs_dir: String,
    /// Most bytes that each node keeps there, bytes or like 1TB; 0: nine tenths of the filesystem.
    #[arg(long, default_value = "0", value_name = "SIZE")]
    pub quota_bytes: ByteSize,
    /// The same; the lesser of both counts.
    #[arg(
        long,
        default_value = "9223372036854775807",
        hide_default_value = true,
        value_name = "SIZE"
    )]
    pub global_file_segment_size: ByteSize,
    /// Evict from there what was used longest ago when there is no room; otherwise nothing more is kept.
    #[arg(long, num_args = 0..=1, default_value = "true", default_missing_value = "true", value_name = "BOOL")]
    pub enable_disk_eviction: Switch,
    /// What lies on the disk of a dead client is kept this long for its next process, in seconds.
    #[arg(long, default_value_t = 600, value_name = "SECONDS")]
    pub disk_ttl: u64,
}

/// Values of `--dynamic_replication_mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum ReplicationName {
    /// Reads are not counted.
    Off,
    /// Which objects are read often is counted and logged.
    Observe,
    /// They get more replicas.
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
    /// Those worth least, by what was learned about their use.
    Adaptive,
    /// The least recently used.
    Lru,
    /// Those that were used once and did not come back.
    #[value(name = "s3fifo")]
    S3Fifo,
    /// Those that were not used since they were looked at last.
    Sieve,
}

/// Values of `--allocation_strategy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum StrategyName {
    /// Any segment with room.
    Random,
    /// The emptier of two: all segments are full to the same share, whatever their lengths.
    FreeRatioFirst,
    /// Segments on the host of the writer, if it lends any, then those on the hosts that follow by name.
    LocalFirst,
    /// Not in this build.
    #[value(hide = true)]
    SsdFreeRatioFirst,
    /// Not in this build.
    #[value(hide = true)]
    Cxl,
}

/// Flags that existing start scripts pass and that change nothing here.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Accepted, no effect", rename_all = "snake_case")]
pub struct AcceptedFlags {
    /// RPC workers; one thread serves all requests here.
    #[arg(long, default_value_t = 0, value_name = "COUNT")]
    pub rpc_thread_num: u32,
    /// Promotions begun per heartbeat; none waits for a heartbeat here.
    #[arg(long, default_value_t = 1, value_name = "COUNT")]
    pub promotion_max_per_heartbeat: u32,
    /// Older name of --rpc_thread_num.
    #[arg(long, default_value_t = 16, value_name = "COUNT")]
    pub max_threads: u32,
}
