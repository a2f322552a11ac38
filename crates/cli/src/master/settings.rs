//! Turns flags into the master's configuration.

use std::path::Path;
use std::time::Duration;

use mooncake_master::{Config, MetadataServer, Roles};
use mooncake_meta::{
    AllocatorKind, Config as PoolConfig, EvictionPolicy, Replication, ReplicationMode, Strategy,
};
use mooncake_types::{SharedDirectory, limits};

use super::flags::{
    AllocatorName, DiskFlags, EvictionName, MasterFlags, MetadataFlags, PoolFlags, ReplicaFlags,
    ReplicationName, StrategyName,
};
use super::leadership::LeadershipEnvironment;
use crate::quantity::Switch;

impl MasterFlags {
    /// Checks flags that depend on each other.
    ///
    /// # Errors
    /// The text names the flag and its value.
    pub fn check(&self) -> Result<(), String> {
        self.leadership.check()?;
        self.kv_events.config()?;
        self.disks.check(&self.rpc.cluster_id)?;
        self.tenants.quotas(&self.rpc.cluster_id)?;
        self.pool_config().validate().map_err(|reason| format!("--{reason}"))
    }

    /// The configuration that these flags and surroundings give.
    ///
    /// # Errors
    /// If `--rpc_interface` names no interface with an address, or a flag is wrong ([`MasterFlags::check`]).
    pub fn settings(&self, surroundings: LeadershipEnvironment) -> Result<Config, String> {
        let rpc_address = match self.rpc.rpc_interface.as_str() {
            "" => self.rpc.rpc_address.clone(),
            name => address_of(name)?,
        };
        let beside_rpc = |host: &str| match host {
            "" => rpc_address.clone(),
            host => host.to_owned(),
        };
        Ok(Config {
            metrics_host: beside_rpc(&self.admin.metrics_host),
            metadata_server: self.metadata_server(beside_rpc),
            rpc_address,
            rpc_port: if self.rpc.rpc_port == 0 { self.rpc.port } else { self.rpc.rpc_port },
            metrics_port: self.admin.metrics_port,
            kv_events: self.kv_events.config()?,
            cluster_id: self.rpc.cluster_id.clone(),
            auth_token: self.rpc.auth_token.clone(),
            roles: self.roles()?,
            tls: self.tls.serving()?,
            tcp_no_delay: self.rpc.rpc_enable_tcp_no_delay.0,
            idle_timeout_ms: self.rpc.rpc_conn_timeout_seconds.saturating_mul(1_000),
            max_connections: self.rpc.max_connections,
            busy_poll: Duration::from_micros(self.rpc.busy_poll_us),
            slow_call: Duration::from_millis(self.slow_call_ms.into()),
            otel_endpoint: self.otel_endpoint.0.clone(),
            report_metrics: self.admin.enable_metric_reporting.0,
            pod: self.leadership.pod(&surroundings),
            leadership: self.leadership.config(surroundings),
            warm_standby: self.leadership.ha_warm_standby.0,
            tenant_quotas: self.tenants.quotas(&self.rpc.cluster_id)?,
            pool: self.pool_config(),
            ..Config::default()
        })
    }

    /// The tokens with roles. A master that has some needs a token of its own, to reach its nodes.
    fn roles(&self) -> Result<Option<Roles>, String> {
        let path = self.rpc.auth_roles_file.as_str();
        if path.is_empty() {
            return Ok(None);
        }
        if self.rpc.auth_token.is_empty() {
            return Err("--auth_roles_file is given, and --auth_token_file is not: a master needs a token of its own".into());
        }
        let opened = Roles::open(Path::new(path));
        opened.map(Some).map_err(|error| format!("--auth_roles_file: {error}"))
    }

    fn metadata_server(&self, beside_rpc: impl Fn(&str) -> String) -> Option<MetadataServer> {
        let flags = &self.metadata;
        let prefix = || match flags.metadata_cluster_id.trim_end_matches('/') {
            "" => "mooncake/".to_owned(),
            cluster => format!("mooncake/{cluster}/"),
        };
        flags.enable_http_metadata_server.0.then(|| MetadataServer {
            host: beside_rpc(&flags.http_metadata_server_host),
            port: flags.http_metadata_server_port,
            auth_token: flags.http_metadata_server_token.clone(),
            cleanup_prefix: flags.enable_metadata_cleanup_on_timeout.0.then(prefix),
        })
    }

    fn pool_config(&self) -> PoolConfig {
        PoolConfig {
            lease_ttl_ms: self.objects.default_kv_lease_ttl.0,
            soft_pin_ttl_ms: self.objects.default_kv_soft_pin_ttl.0,
            max_soft_pin_ttl_ms: self.objects.max_kv_soft_pin_ttl.0,
            allow_evict_soft_pinned: self.objects.allow_evict_soft_pinned_objects.0,
            eviction_policy: match self.objects.eviction_policy {
                EvictionName::Adaptive => EvictionPolicy::Adaptive,
                EvictionName::Lru => EvictionPolicy::Lru,
                EvictionName::S3Fifo => EvictionPolicy::S3Fifo,
                EvictionName::Sieve => EvictionPolicy::Sieve,
            },
            eviction_ratio: self.objects.eviction_ratio,
            eviction_high_watermark_ratio: self.objects.eviction_high_watermark_ratio,
            multi_tenants: self.tenants.enable_multi_tenants.0,
            tenant_eviction_high_watermark_ratio: self.tenants.tenant_eviction_high_watermark_ratio,
            allocator: match self.pool.memory_allocator {
                AllocatorName::Offset => AllocatorKind::Offset,
                AllocatorName::Cachelib => AllocatorKind::Cachelib,
            },
            strategy: match self.pool.allocation_strategy {
                StrategyName::FreeRatioFirst | StrategyName::SsdFreeRatioFirst => {
                    Strategy::FreeRatioFirst
                }
                StrategyName::LocalFirst => Strategy::LocalFirst,
                StrategyName::Random | StrategyName::Cxl => Strategy::Random,
            },
            client_ttl_ms: self.pool.active_ttl_sec().saturating_mul(1_000),
            suspicion_ttl_ms: self.pool.suspicion_ttl_sec().saturating_mul(1_000),
            put_discard_ms: self.objects.put_start_discard_timeout_sec.saturating_mul(1_000),
            put_release_ms: self.objects.put_start_release_timeout_sec.saturating_mul(1_000),
            stripe_threshold_bytes: self.pool.stripe_threshold_bytes.0,
            max_finished_tasks: self.tasks.max_total_finished_tasks,
            max_pending_tasks: self.tasks.max_total_pending_tasks,
            max_processing_tasks: self.tasks.max_total_processing_tasks,
            pending_task_ms: self.tasks.pending_task_timeout_sec.saturating_mul(1_000),
            processing_task_ms: self.tasks.processing_task_timeout_sec.saturating_mul(1_000),
            max_task_retries: self.tasks.max_retry_attempts,
            repair_bytes_per_second: self.replicas.repair_bytes_per_second.0,
            replication: self.replicas.replication(),
            offload: self.disks.enable_offload.0,
            offload_on_evict: self.disks.offload_on_evict.0,
            offload_force_evict: self.disks.offload_force_evict.0,
            offload_cap_ratio: self.disks.offload_cap_ratio,
            offloading_queue_limit: self.disks.offloading_queue_limit,
            promotion_on_hit: self.disks.promotion_on_hit.0,
            promotion_admission_threshold: self.disks.promotion_admission_threshold,
            promotion_queue_limit: self.disks.promotion_queue_limit,
            disk_ttl_ms: self.disks.disk_ttl.saturating_mul(1_000),
            shared_directory: self.disks.used_directory(&self.rpc.cluster_id),
            ..PoolConfig::default()
        }
    }
}

impl DiskFlags {
    fn check(&self, cluster: &str) -> Result<(), String> {
        let Some(directory) = self.shared_directory(cluster) else { return Ok(()) };
        let root = &self.root_fs_dir;
        if !root.starts_with('/') {
            return Err(format!(
                "--root_fs_dir={root}: it must begin with '/', since nodes run elsewhere"
            ));
        }
        if directory.path.len() > LONGEST_DIRECTORY {
            return Err(format!(
                "--root_fs_dir={root}: with the cluster id it must have at most {LONGEST_DIRECTORY} bytes"
            ));
        }
        if directory.most_bytes != 0 && directory.most_bytes < LEAST_BYTES {
            return Err(format!(
                "--quota_bytes and --global_file_segment_size must be at least {LEAST_BYTES}"
            ));
        }
        Ok(())
    }

    /// The shared directory, unless objects go to the nodes' own disks: as with the C++ package, they do not go to both.
    fn used_directory(&self, cluster: &str) -> Option<SharedDirectory> {
        self.shared_directory(cluster).filter(|_| !self.enable_offload.0)
    }

    /// Whether a shared directory is named that is not used.
    pub(super) fn leaves_directory(&self) -> bool {
        self.enable_offload.0 && !self.root_fs_dir.is_empty()
    }

    /// The shared directory of this cluster, and how much a node may keep there.
    fn shared_directory(&self, cluster: &str) -> Option<SharedDirectory> {
        let root = self.root_fs_dir.trim_end_matches('/');
        let most = match (self.quota_bytes.0, self.global_file_segment_size.0) {
            (0, WHOLE_FILESYSTEM..) => 0,
            (0, most) | (most, 0) => most,
            (quota, most) => quota.min(most),
        };
        (!self.root_fs_dir.is_empty()).then(|| SharedDirectory {
            path: format!("{root}/{}", folder_name(cluster)),
            most_bytes: most,
            evicts: self.enable_disk_eviction.0,
        })
    }
}

/// The longest path of a shared directory, in bytes. The names of its segments begin with the path, and are limited.
const LONGEST_DIRECTORY: usize = limits::MAX_NAME_BYTES - "/files-4294967295".len();
/// The least number of bytes that a node may be told to keep there.
const LEAST_BYTES: u64 = 16 << 20;
/// The default of `--global_file_segment_size`.
const WHOLE_FILESYSTEM: u64 = i64::MAX as u64;

/// The folder name of a cluster. Its id may contain any characters, so they are percent-encoded.
fn folder_name(cluster: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
    let name: String = cluster
        .bytes()
        .map(|byte| match plain(&byte) {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02x}"),
        })
        .collect();
    if name.is_empty() { "%".to_owned() } else { name }
}

impl PoolFlags {
    /// How long a client may be silent and in sight.
    fn active_ttl_sec(&self) -> u64 {
        self.client_active_ttl_sec.unwrap_or(self.client_ttl)
    }

    /// How long a client out of sight may come back.
    fn suspicion_ttl_sec(&self) -> u64 {
        self.client_suspicion_ttl_sec.or(self.client_active_ttl_sec).unwrap_or(0)
    }

    /// What is taken for a strategy of the C++ package that is not here.
    pub(super) fn replaced_strategy(&self) -> Option<(&'static str, &'static str)> {
        match self.allocation_strategy {
            StrategyName::SsdFreeRatioFirst => Some(("ssd_free_ratio_first", "free_ratio_first")),
            StrategyName::Cxl => Some(("cxl", "random")),
            StrategyName::Random | StrategyName::FreeRatioFirst | StrategyName::LocalFirst => None,
        }
    }
}

impl MetadataFlags {
    /// Enables the metadata server if its port or host is given, unless the switch itself is given.
    pub(super) fn enable_if_described(&mut self, is_given: impl Fn(&str) -> bool) {
        let is_described =
            ["http_metadata_server_port", "http_metadata_server_host"].into_iter().any(&is_given);
        if is_described && !is_given("enable_http_metadata_server") {
            self.enable_http_metadata_server = Switch(true);
        }
    }
}

impl ReplicaFlags {
    fn replication(&self) -> Replication {
        Replication {
            mode: match self.dynamic_replication_mode {
                ReplicationName::Off => ReplicationMode::Off,
                ReplicationName::Observe => ReplicationMode::Observe,
                ReplicationName::Enforce => ReplicationMode::Enforce,
            },
            window_ms: u64::from(self.dynamic_replication_heat_window_seconds) * 1_000,
            admission_qps: self.dynamic_replication_admission_qps_threshold,
            max_replicas: self.dynamic_replication_max_memory_replicas,
        }
    }
}

fn address_of(interface: &str) -> Result<String, String> {
    let all = if_addrs::get_if_addrs().map_err(|error| format!("--rpc_interface: {error}"))?;
    let mut addresses: Vec<_> =
        all.iter().filter(|entry| entry.name == interface).map(if_addrs::Interface::ip).collect();
    addresses.sort_by_key(std::net::IpAddr::is_ipv6);
    match addresses.first() {
        Some(address) => Ok(address.to_string()),
        None => {
            let mut names: Vec<&str> = all.iter().map(|entry| entry.name.as_str()).collect();
            names.sort_unstable();
            names.dedup();
            Err(format!(
                "--rpc_interface={interface}: there is no such interface with an address; there are {}",
                names.join(", ")
            ))
        }
    }
}
