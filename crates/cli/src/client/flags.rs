//! The flags of `mooncake_client`.

use clap::{Args, Parser};
use mooncake_client::{HttpAddress, is_served_by_tcp};
use mooncake_types::{ByteSize, FailureDomains, Secret, Tenant};

use crate::config_file::UnknownKey;
use crate::logging::{LogFormat, LogLevel};
use crate::otel::OtelEndpoint;
use crate::quantity::Switch;
use crate::tls_flags::TlsFlags;

/// A stand-alone storage node of a Mooncake Store: it lends memory to the pool until it is stopped.
#[derive(Clone, Debug, Parser)]
#[command(name = "mooncake_client", version, rename_all = "snake_case", max_term_width = 110)]
pub struct ClientFlags {
    /// JSON or YAML file whose keys are the names of flags.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "FILE")]
    pub config_path: String,

    /// Least level of log messages, which go to standard error.
    #[arg(long, value_enum, default_value = "info", value_name = "LEVEL")]
    pub log_level: LogLevel,

    /// How log messages are written: lines for people, or a JSON object on each line.
    #[arg(long, value_enum, default_value = "text", value_name = "FORMAT")]
    pub log_format: LogFormat,

    /// Log a call of a dummy client, and a request that this node serves, if it takes at least this long, in
    /// milliseconds; 0: none. Also read from MOONCAKE_SLOW_CALL_MS.
    #[arg(long, default_value_t = 1000, value_name = "MILLISECONDS")]
    pub slow_call_ms: u32,

    /// Collector of OpenTelemetry, like http://collector:4318, that gets the spans of calls and requests whose callers are traced; empty:
    /// none. Also read from MOONCAKE_OTEL_ENDPOINT.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "URL", value_parser = crate::otel::parse)]
    pub otel_endpoint: OtelEndpoint,

    /// TLS.
    #[command(flatten)]
    pub tls: TlsFlags,

    /// Node.
    #[command(flatten)]
    pub node: NodeFlags,

    /// Master.
    #[command(flatten)]
    pub master: MasterAddressFlags,

    /// Dummy clients.
    #[command(flatten)]
    pub dummies: DummyFlags,

    /// HTTP.
    #[command(flatten)]
    pub http: HttpFlags,

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

/// See [`ClientFlags`].
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Node", rename_all = "snake_case")]
pub struct NodeFlags {
    /// Host name of this node for others, with or without a port. Without a port, the node takes a free one from 12300
    /// to 14300. 0.0.0.0: the address of this host on the route to the master.
    #[arg(long, default_value = "0.0.0.0", value_name = "HOST[:PORT]")]
    pub host: String,
    /// Address that others use to reach this node, if it differs from the one that it listens on; empty: the same.
    /// Also read from MOONCAKE_ADVERTISE_ADDRESS.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "HOST[:PORT]")]
    pub advertise_address: String,
    /// Failure domains of this node beside its host, the nearest first, like rack=r7,zone=east. Replicas of an object
    /// go to different domains as far as possible. Also read from MOONCAKE_DOMAIN.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NAME=VALUE,...")]
    pub domain: FailureDomains,
    /// Memory lent to the pool, in bytes, or like 4GB.
    #[arg(long, default_value = "4 GB", value_name = "SIZE")]
    pub global_segment_size: ByteSize,
    /// File for the memory, such as /dev/shm/mooncake. A node that starts with the same file again keeps its objects.
    /// Empty: the memory ends with the node. Also read from MOONCAKE_SEGMENT_PATH.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "FILE")]
    pub segment_path: String,
    /// Begin with an empty segment, whatever segment the file holds. Any other content is never overwritten. Also read
    /// from MOONCAKE_SEGMENT_RESET.
    #[arg(long, num_args = 0..=1, default_value = "false", default_missing_value = "true", value_name = "BOOL")]
    pub segment_reset: Switch,
    /// Compare all bytes that are read with their checksums, also those that came by shared memory or one-sided. What
    /// comes by TCP always is. Processes that read give it, too. Also read from MOONCAKE_VERIFY_READS.
    #[arg(long, num_args = 0..=1, default_value = "false", default_missing_value = "true", value_name = "BOOL")]
    pub verify_reads: Switch,
    /// Lend a disk beside the memory, for objects that memory has no room for. The master must run with
    /// --enable_offload. Also read from MOONCAKE_OFFLOAD_ENABLED.
    #[arg(long, num_args = 0..=1, default_value = "false", default_missing_value = "true", value_name = "BOOL")]
    pub enable_offload: Switch,
    /// Folder for that disk. Its objects remain when the node is started again. Nodes with the same folder use
    /// separate parts of it. Also read from MOONCAKE_OFFLOAD_FILE_STORAGE_PATH.
    #[arg(long, default_value = "/data/file_storage", value_name = "FOLDER")]
    pub ssd_offload_path: String,
    /// Most bytes to keep on that disk, like 500GB. At most nine tenths of the filesystem are used in any case. Also
    /// read from MOONCAKE_OFFLOAD_TOTAL_SIZE_LIMIT_BYTES.
    #[arg(long, default_value = "2 TB", value_name = "SIZE")]
    pub ssd_offload_size: ByteSize,
    /// Object store for objects that are used again, with a prefix: s3://BUCKET/PREFIX, gs://BUCKET/PREFIX,
    /// az://CONTAINER/PREFIX or file:///FOLDER. The master must run with --enable_offload. Nodes use separate parts of
    /// it. Keys, region and address come from the environment, such as AWS_ACCESS_KEY_ID. Also read from
    /// MOONCAKE_OBJECT_STORE_URL.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "URL")]
    pub object_store_url: String,
    /// Most bytes to keep in the object store, like 500GB. Also read from MOONCAKE_OBJECT_STORE_SIZE_BYTES.
    #[arg(long, default_value = "1 TB", value_name = "SIZE")]
    pub object_store_size: ByteSize,
    /// Buffer for puts and gets of this process that copy, in bytes, or like 16MB. A storage node makes none.
    #[arg(long, default_value = "0", value_name = "SIZE")]
    pub local_buffer_size: ByteSize,
    /// On SIGTERM, move the objects of this node to other nodes with room, for at most this many seconds; 0: stop at
    /// once. A second signal stops the node at once. Not with --segment_path, where the file keeps all objects. Also
    /// read from MOONCAKE_DRAIN_TIMEOUT_SEC.
    #[arg(long, default_value_t = 20, value_name = "SECONDS")]
    pub drain_timeout_sec: u32,
    /// How long a put of a dummy client waits for room in a full pool, until leases end, in milliseconds up to 30000;
    /// 0: it is refused at once. Also read from MOONCAKE_PUT_WAIT_MS.
    #[arg(long, default_value_t = 0, value_name = "MILLISECONDS")]
    pub put_wait_ms: u32,
    /// Transport of bytes: tcp, or rdma, which uses InfiniBand or RoCE, and tcp where there is none. efa is accepted, and
    /// uses tcp.
    #[arg(long, default_value = "tcp", value_name = "NAME")]
    pub protocol: String,
}

/// See [`ClientFlags`].
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Master", rename_all = "snake_case")]
pub struct MasterAddressFlags {
    /// Address of the master. Several masters, separated by commas or semicolons, are tried in turn. Or the
    /// coordinator that knows the leader: etcd://HOST:PORT;HOST:PORT, redis://HOST:PORT, k8s://NAMESPACE/LEASE or
    /// file:///FOLDER.
    #[arg(long, default_value = "127.0.0.1:50051", value_name = "HOST:PORT")]
    pub master_server_address: String,
    /// Wait for a master for as long as it takes. Otherwise a node without a master ends after
    /// MC_RPC_CONNECT_TIMEOUT_MS, by default 10 s. By default true in a container, unless that variable is set. Also
    /// read from MOONCAKE_WAIT_FOR_MASTER.
    #[arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL")]
    pub wait_for_master: Option<Switch>,
    /// Name of the cluster, which must be the same as the master's. Also read from MC_STORE_CLUSTER_ID.
    #[arg(long, default_value = "mooncake_cluster", value_name = "NAME")]
    pub cluster_id: String,
    /// Secret that all members of the cluster share; empty: none. Also read from MOONCAKE_AUTH_TOKEN.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "TOKEN")]
    pub auth_token: Secret,
    /// File that holds this secret. Other users of the host can see a secret in a command line. Also read from
    /// MOONCAKE_AUTH_TOKEN_FILE.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "FILE")]
    pub auth_token_file: String,
    /// File with tokens of members that may do less than those that know this secret: a line for each, such as
    /// read,write TOKEN. The master has the same file. Also read from MOONCAKE_AUTH_ROLES_FILE.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "FILE")]
    pub auth_roles_file: String,
}

/// See [`ClientFlags`].
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Dummy clients", rename_all = "snake_case")]
pub struct DummyFlags {
    /// Serve dummy clients of this host and user over the socket @mooncake_client_PORT.sock; 0: serve none. By default
    /// the port is 50052, unless another process has it. A port that is given here is also the TCP port of the node if
    /// it is free, unless --host names one.
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// Most calls of dummy clients served at a time. Further calls wait.
    #[arg(long, default_value_t = 32, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub threads: u32,
    /// Tenant of the dummy clients. They do not see the keys of other tenants. Also read from MOONCAKE_TENANT_ID.
    #[arg(long, default_value = "default", value_name = "NAME")]
    pub tenant_id: String,
}

impl DummyFlags {
    /// The tenant of the dummy clients.
    ///
    /// # Errors
    /// The text names the flag and its value.
    pub(super) fn tenant(&self) -> Result<Tenant, String> {
        let name = &self.tenant_id;
        Tenant::named(name).map_err(|wrong| format!("--tenant_id={name}: {wrong}"))
    }
}

/// See [`ClientFlags`].
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "HTTP", rename_all = "snake_case")]
pub struct HttpFlags {
    /// Serve /health, /metrics and /metrics/summary over HTTP.
    #[arg(long, num_args = 0..=1, default_value = "false", default_missing_value = "true", value_name = "BOOL")]
    pub enable_http_server: Switch,
    /// Port of the HTTP server; 0: any free port, which is logged.
    #[arg(long, default_value_t = 9300, value_name = "PORT")]
    pub http_port: u16,
    /// Address of the HTTP server.
    #[arg(long, default_value = "0.0.0.0", value_name = "HOST")]
    pub http_host: String,
}

impl DummyFlags {
    /// The TCP port of the node, where `--host` names none. Deployments that name a port probe it.
    #[must_use]
    pub fn data_port(&self) -> Option<u16> {
        self.port.filter(|&port| port != 0)
    }
}

impl HttpFlags {
    /// The address of the HTTP server, if it is enabled.
    #[must_use]
    pub fn address(&self) -> Option<HttpAddress> {
        let address = || HttpAddress { host: self.http_host.clone(), port: self.http_port };
        self.enable_http_server.0.then(address)
    }
}

/// Flags of existing start scripts, which have no effect here.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Accepted, no effect", rename_all = "snake_case")]
pub struct AcceptedFlags {
    /// Nodes of this store need no metadata server.
    #[arg(long, default_value = "http://127.0.0.1:8080/metadata", value_name = "URL")]
    pub metadata_server: String,
    /// The NICs that `--protocol=rdma` may use, with commas between them; all if it names none.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NAMES")]
    pub device_names: String,
    /// Others can always read the disk of this node.
    #[arg(long, num_args = 0..=1, default_value = "true", default_missing_value = "true", value_name = "BOOL")]
    pub start_offload_rpc_server: Switch,
}

impl ClientFlags {
    /// Checks flags against features that this build lacks.
    ///
    /// # Errors
    /// The text names the flag and its value.
    pub fn check(&self) -> Result<(), String> {
        self.dummies.tenant()?;
        match is_served_by_tcp(&self.node.protocol) {
            true => Ok(()),
            false => Err(format!(
                "--protocol={}: this transport is not supported in this build",
                self.node.protocol
            )),
        }
    }
}
