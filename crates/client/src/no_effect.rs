//! Settings of the C++ store without effect here, and what happens instead: flags of its programs, keys of its
//! `setup`, and environment variables. Each program that finds some of them warns once, when it starts.

/// Names with the same replacement. A name that ends in `*` means all names with that prefix.
struct NoEffect {
    names: &'static [&'static str],
    instead: &'static str,
}

const fn row(names: &'static [&'static str], instead: &'static str) -> NoEffect {
    NoEffect { names, instead }
}

/// Flags of glog without a value, which have no effect.
pub const GLOG_SWITCHES: &[&str] = &[
    "logtostdout",
    "colorlogtostderr",
    "colorlogtostdout",
    "log_file_header",
    "log_prefix",
    "log_utc_time",
    "log_year_in_prefix",
    "drop_log_memory",
    "stop_logging_if_full_disk",
    "symbolize_stacktrace",
    "timestamp_in_logfile_name",
];

/// Flags of glog with a value, which have no effect.
pub const GLOG_VALUES: &[&str] = &[
    "v",
    "vmodule",
    "minloglevel",
    "stderrthreshold",
    "log_dir",
    "log_link",
    "log_backtrace_at",
    "max_log_size",
    "logbuflevel",
    "logbufsecs",
    "logemaillevel",
    "logmailer",
    "alsologtoemail",
    "logfile_mode",
];

/// Flags of gflags itself, which have no effect.
pub const GFLAGS_VALUES: &[&str] = &[
    "flagfile",
    "fromenv",
    "tryfromenv",
    "undefok",
    "tab_completion_columns",
    "tab_completion_word",
];

const LOGS: &str = "logs go to standard error, at --log_level or MC_LOG_LEVEL";

const NO_EFFECT: &[NoEffect] = &[
    row(
        &["MC_STORE_LOCAL_HOT_CACHE_USE_SHM", "MC_STORE_LOCAL_HOT_USE_SHM"],
        "all processes of a user on a host share one hot cache",
    ),
    row(
        &["MC_STORE_REPLICA_SCORING"],
        "a replica of this process is read first, else one at random",
    ),
    row(
        &["MC_STORE_MEMCPY"],
        "memory of the same process and host is always copied directly, by MOONCAKE_TRANSPORTS",
    ),
    row(
        &["MC_STORE_USE_HUGEPAGE", "MC_STORE_HUGEPAGE_SIZE"],
        "segments have ordinary pages, unless segment_path names a file of a hugetlbfs",
    ),
    row(
        &[
            "MC_MMAP_ARENA_POOL_SIZE",
            "MC_DISABLE_MMAP_ARENA",
            "mmap_arena_pool_size",
            "use_mmap_arena_allocator",
        ],
        "buffers are mapped one by one; there is no arena",
    ),
    row(
        &["MC_STORE_NUMA_SOCKET_ID", "enable_egm_store_pool", "egm_numa_nodes"],
        "bind_to_numa_node binds memory to a node",
    ),
    row(
        &["MC_STORE_PIN_MEMORY_MAX_BYTES", "MC_STORE_PINNED_RESTORE_ARENA_SIZE_BYTES"],
        "only memory of the host is served, and none of it is pinned",
    ),
    row(
        &["device_names", "rdma_devices"],
        "no network card is chosen: bytes go by TCP, as the system routes them",
    ),
    row(
        &["MC_STORE_HCA_*", "MC_RDMA_*", "MC_EFA_*"],
        "the protocol rdma uses the NICs nearest to the memory, and threads that wait move the requests",
    ),
    row(
        &[
            "MC_NUM_CQ_PER_CTX",
            "MC_NUM_COMP_CHANNELS_PER_CTX",
            "MC_MAX_CQE_PER_CTX",
            "MC_MAX_EP_PER_CTX",
            "MC_WORKERS_PER_CTX",
        ],
        "each peer has queues of its own, and queue pairs for each connection; threads that wait move them",
    ),
    row(
        &["MC_RPC_PROTOCOL", "MC_USE_TENT"],
        "requests go by TCP, bytes by shared memory of one host or by TCP",
    ),
    row(&["MC_USE_IPV6"], "both kinds of addresses are used wherever they are named"),
    row(
        &[
            "MC_RPC_CLIENT_IO_THREADS",
            "MC_STORE_RPC_CLIENT_IO_THREADS",
            "MC_TE_RPC_CLIENT_IO_THREADS",
            "MC_FILEREAD_WORKERS",
            "MC_NUM_TCP_IO_THREADS",
        ],
        "every call works on its own thread",
    ),
    row(
        &[
            "MC_TCP_SLICE_SIZE",
            "MC_TCP_ENABLE_CONNECTION_POOL",
            "MC_TCP_MAX_QUEUED_TRANSFERS_PER_PEER",
            "MC_TCP_MAX_QUEUED_BYTES_PER_PEER",
            "MC_TCP_MAX_PENDING_ADMISSIONS_PER_PEER",
            "MC_TCP_ADMISSION_TIMEOUT_MS",
            "MC_TCP_STATUS_TIMEOUT_SEC",
            "MC_TCP_PROTO",
        ],
        "connections are always kept, and bounded by MC_TCP_LANES_PER_PEER and MC_TRANSFER_TIMEOUT",
    ),
    row(
        &["MOONCAKE_STORE_CHECKSUM"],
        "bytes that go by TCP are always checked, those of the same host are not",
    ),
    row(
        &[
            "MC_STORE_CLIENT_METRIC",
            "MC_STORE_CLIENT_METRIC_INTERVAL",
            "MC_STORE_CLIENT_METRIC_BANDWIDTH",
        ],
        "metrics are always counted; enable_client_http_server serves them",
    ),
    row(&["MC_STORE_CLIENT_SETUP_RETRIES"], "all ports of the range are tried"),
    row(&["MC_LOG_DIR", "MC_YLT_LOG_LEVEL"], LOGS),
    row(GLOG_SWITCHES, LOGS),
    row(GLOG_VALUES, LOGS),
    row(GFLAGS_VALUES, "flags stand on the command line, or in the file of --config_path"),
    row(
        &["rpc_thread_num", "max_threads", "handler_worker_thread_num"],
        "one thread serves all requests",
    ),
    row(&["MOONCAKE_STORE_BACKEND"], "this package has one backend"),
    row(&["MC_FORCE_SHM"], "processes of one host share memory by themselves"),
    row(
        &["MOONCAKE_HOST_ID"],
        "hosts are told apart by their names, and --domain names what they share",
    ),
    row(
        &["MC_METADATA_MAX_*", "MC_METADATA_HTTP_ALLOW_INSECURE"],
        "metadata servers have limits of their own, and warn of ports that are open without a token",
    ),
    row(&["promotion_max_per_heartbeat"], "promotions wait for no heartbeat"),
    row(&["metadata_server"], "nodes find each other through the master"),
    row(
        &["oplog_*", "enable_oplog", "batch_oplog_retry_timeout_sec"],
        "there is no operation log: a new leader asks the nodes what they hold",
    ),
    row(
        &[
            "snapshot_*",
            "enable_snapshot",
            "enable_snapshot_restore",
            "enable_oplog_snapshot",
            "MOONCAKE_SNAPSHOT_LOCAL_PATH",
            "MOONCAKE_AWS_*",
            "MOONCAKE_S3_*",
            "MOONCAKE_OSS_*",
        ],
        "there are no snapshots: a new leader asks the nodes what they hold",
    ),
    row(
        &[
            "start_offload_rpc_server",
            "MOONCAKE_OFFLOAD_HEARTBEAT_INTERVAL_SECONDS",
            "MOONCAKE_OFFLOAD_CLIENT_BUFFER_GC_*",
        ],
        "objects go to disks at once, and are read there like those in memory",
    ),
    row(
        &[
            "MOONCAKE_OFFLOAD_BUCKET_*",
            "MOONCAKE_OFFLOAD_FLUSH_PARTIAL_BUCKETS",
            "MOONCAKE_OFFLOAD_FSDIR",
            "MOONCAKE_OFFLOAD_ENABLE_EVICTION",
            "MOONCAKE_OFFLOAD_SCANMETA_*",
            "MOONCAKE_SCANMETA_*",
            "MOONCAKE_OFFLOAD_TOTAL_KEYS_LIMIT",
            "MOONCAKE_OFFSET_*",
        ],
        "disks have one format, a log of checked records that outlives its process",
    ),
    row(
        &[
            "MOONCAKE_OFFLOAD_ENABLE_DISK_WATERMARK_EVICTION",
            "MOONCAKE_OFFLOAD_DISK_EVICTION_LOW_WATERMARK_RATIO",
            "MOONCAKE_DISK_EVICTION_*",
        ],
        "the master evicts from disks as it does from memory",
    ),
    row(&["MOONCAKE_OFFLOAD_USE_URING"], "disks are read and written past the system's cache"),
    row(
        &["MOONCAKE_STORAGE_ROOT_DIR", "MOONCAKE_ENABLE_DFS", "MOONCAKE_DFS_*"],
        "the master names the directory that hosts share, with --root_fs_dir",
    ),
    row(
        &["MOONCAKE_TENANT_QUOTA_ETCD_ENDPOINTS"],
        "the master names the place of the quotas, with --tenant_quota_connector_uri",
    ),
    row(
        &[
            "kv_events_model_name",
            "kv_events_tenant_id",
            "kv_events_additional_salt",
            "kv_events_lora_name",
            "kv_events_block_size",
            "kv_events_dp_rank",
        ],
        "events leave this out: consumers know it from the engines",
    ),
    row(
        &["nof_*", "MC_NOF_*", "MC_NVME_*", "MOONCAKE_NVME_KV_*"],
        "NVMe targets are not driven in this build",
    ),
    row(
        &["enable_cxl", "cxl_path", "cxl_size", "MC_CXL_DEV_SIZE", "MC_CXL_DEV_PATH"],
        "CXL memory is not driven in this build",
    ),
    row(
        &["weight_import_idle_timeout_ms", "weight_management_oplog_capability_confirmed"],
        "there are no managed weights",
    ),
    row(&["ipc_socket_path"], "dummy clients find their mooncake_client by its port"),
];

/// What happens instead of a setting of the C++ store, if it has no effect here.
#[must_use]
pub fn instead_of(name: &str) -> Option<&'static str> {
    let fits = |known: &&str| match known.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => *known == name,
    };
    NO_EFFECT.iter().find(|row| row.names.iter().any(fits)).map(|row| row.instead)
}

/// Whether a value asks for nothing: without effect, a feature is switched off anyway.
#[must_use]
pub fn asks_for_nothing(value: &str) -> bool {
    matches!(value.trim().to_ascii_lowercase().as_str(), "" | "0" | "false" | "no" | "off" | "none")
}

/// The variables in this process's environment that have no effect.
#[must_use]
pub fn variables() -> Vec<String> {
    let all = std::env::vars_os();
    let text = all.filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    of_variables(text.map(|(name, value)| (name, value.to_string_lossy().into_owned())))
}

fn of_variables(all: impl Iterator<Item = (String, String)>) -> Vec<String> {
    let is_variable = |name: &str| name.starts_with("MC_") || name.starts_with("MOONCAKE_");
    let mut names: Vec<String> = all
        .filter(|(name, value)| {
            is_variable(name) && !asks_for_nothing(value) && instead_of(name).is_some()
        })
        .map(|(name, _)| name)
        .collect();
    names.sort_unstable();
    names
}

/// One sentence about all of these settings, each with what happens instead. `None` without any.
#[must_use]
pub fn warning(names: &[String]) -> Option<String> {
    let mut told: Vec<(&'static str, Vec<&str>)> = Vec::new();
    for name in names {
        let Some(instead) = instead_of(name.trim_start_matches('-')) else { continue };
        match told.iter_mut().find(|(known, _)| *known == instead) {
            Some((_, names)) => names.push(name),
            None => told.push((instead, vec![name])),
        }
    }
    let parts: Vec<String> =
        told.iter().map(|(instead, names)| format!("{} ({instead})", names.join(", "))).collect();
    (!parts.is_empty()).then(|| format!("without effect in this build: {}", parts.join("; ")))
}

/// A warning about a protocol that is treated as TCP.
#[must_use]
pub fn protocol_warning(protocol: &str) -> Option<String> {
    (protocol != "tcp" && crate::is_served_by_tcp(protocol))
        .then(|| format!("protocol {protocol:?} is taken for 'tcp' in this build"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_without_effect_are_named_once_with_what_happens_instead() {
        let all = [
            ("MC_STORE_LOCAL_HOT_CACHE_SIZE", "1073741824"),
            ("MC_STORE_LOCAL_HOT_USE_SHM", "1"),
            ("MC_RDMA_SIGNAL_INTERVAL", "1"),
            ("MC_STORE_HCA_AFFINITY", "mlx5_0"),
            ("MC_MS_FILTERS", "mlx5_0"),
            ("MC_STORE_USE_HUGEPAGE", "0"),
            ("MC_STORE_REPLICA_SCORING", ""),
            ("MOONCAKE_OFFLOAD_BUCKET_KEYS_LIMIT", "500"),
            ("MOONCAKE_OFFLOAD_FILE_STORAGE_PATH", "/nvme"),
            ("MC_RPC_TIMEOUT_MS", "1000"),
            ("MOONCAKE_MASTER", "host:1"),
            ("v", "1"),
        ];
        let names = of_variables(all.map(|(name, value)| (name.into(), value.into())).into_iter());
        let expected = "without effect in this build: MC_RDMA_SIGNAL_INTERVAL, MC_STORE_HCA_AFFINITY (the protocol rdma \
                        uses the NICs nearest to the memory, and threads that wait move the requests); MC_STORE_LOCAL_HOT_USE_SHM (all processes of a user on \
                        a host share one hot cache); MOONCAKE_OFFLOAD_BUCKET_KEYS_LIMIT (disks have one format, a log \
                        of checked records that outlives its process)";
        assert_eq!(warning(&names).as_deref(), Some(expected));
        assert_eq!(warning(&[]), None);
        assert_eq!(warning(&["MC_RPC_TIMEOUT_MS".to_owned()]), None);
        let flag = warning(&["--oplog_poll_interval_ms".to_owned()]).expect("it has none");
        assert!(flag.contains("--oplog_poll_interval_ms (there is no operation log"), "{flag}");
    }

    #[test]
    fn variables_that_the_cpp_package_0_3_14_brought_take_effect_or_are_named() {
        let without_effect = [
            "MC_NUM_TCP_IO_THREADS",
            "MC_TCP_MAX_QUEUED_BYTES_PER_PEER",
            "MC_FORCE_SHM",
            "MC_RDMA_DATA_DIRECT",
            "MC_RDMA_DATA_DIRECT_PAIRING",
            "MC_RDMA_SIGNAL_INTERVAL",
            "MC_RDMA_WORKER_IDLE_SPIN_US",
            "MC_EFA_NIC_SELECTION",
            "MC_STORE_HCA_AFFINITY",
            "MC_STORE_HCA_NUMA_SEGMENTS",
            "MC_STORE_NUMA_SOCKET_ID",
            "MOONCAKE_HOST_ID",
            "MOONCAKE_STORE_BACKEND",
            "MOONCAKE_DFS_ROOT_DIR",
            "MOONCAKE_OFFLOAD_FLUSH_PARTIAL_BUCKETS",
            "MOONCAKE_S3_BUCKET",
            "MOONCAKE_OSS_BUCKET",
        ];
        for name in without_effect {
            assert!(instead_of(name).is_some(), "{name}");
        }
        for name in ["MC_METADATA_HTTP_TOKEN", "MC_STORE_LOCAL_HOT_ADMISSION_THRESHOLD"] {
            assert_eq!(instead_of(name), None, "{name}");
        }
    }

    #[test]
    fn no_name_has_two_fates() {
        let mut names: Vec<&str> = NO_EFFECT.iter().flat_map(|row| row.names).copied().collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn only_protocols_that_travel_otherwise_are_warned_about() {
        let expected = "protocol \"rdma\" is taken for 'tcp' in this build";
        assert_eq!(protocol_warning("rdma").as_deref(), Some(expected));
        assert_eq!((protocol_warning("tcp"), protocol_warning("cxl")), (None, None));
    }
}
