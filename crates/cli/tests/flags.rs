//! Command lines and configuration files, parsed into configurations.

#![allow(missing_docs, reason = "tests are no public interface")]

use std::path::PathBuf;
use std::time::Duration;

use mooncake_cli::command_line::{UsageError, Variable};
use mooncake_cli::master::LeadershipEnvironment;
use mooncake_cli::{client, master};
use mooncake_client::{HttpAddress, StoreConfig};
use mooncake_master::{Config, KvEvents, LeadershipConfig, MetadataServer, QuotaSource, StateDir};
use mooncake_meta::{
    AllocatorKind, Config as PoolConfig, EvictionPolicy, Replication, ReplicationMode, Strategy,
};
use mooncake_types::{Secret, SharedDirectory};

fn words(text: &str) -> Vec<String> {
    text.split('|').filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

fn settings(args: &str) -> Config {
    let flags = master::parse(&words(args), &[]).unwrap_or_else(|error| panic!("{args}: {error}"));
    flags.settings(LeadershipEnvironment::default()).expect("flags that were checked")
}

fn master_error(args: &str) -> String {
    match master::parse(&words(args), &[]) {
        Ok(_) => panic!("{args} was accepted"),
        Err(error) => error.to_string(),
    }
}

fn file(name: &str, text: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).expect("the test folder can be written");
    path
}

#[test]
fn the_defaults_are_those_of_the_documentation() {
    assert_eq!(settings(""), Config::default());
}

/// All flags of the pool, none at its default.
const POOL: &str = "-rpc_port=1234|--rpc-address|127.0.0.1|--metrics_port=4321|--metrics-host=127.0.0.2|\
    --cluster_id=blue|--auth_token=x|--norpc_enable_tcp_no_delay|--rpc_conn_timeout_seconds=7|\
    --max_connections=9|--busy_poll_us=30|--slow_call_ms=40|--otel_endpoint=http://c:4318|--enable_metric_reporting=no|--default_kv_lease_ttl=500|\
    --default_kv_soft_pin_ttl=1m|--max_kv_soft_pin_ttl=3600000|\
    --allow_evict_soft_pinned_objects=0|--eviction_policy=s3fifo|--eviction_ratio=0.1|--eviction_high_watermark_ratio=1|\
    --memory_allocator=cachelib|--allocation_strategy=free_ratio_first|--client_ttl=3|\
    --put_start_discard_timeout_sec=4|--put_start_release_timeout_sec=5|\
    --stripe_threshold_bytes=64MB|--max_total_finished_tasks=11|--max-total-pending-tasks=12|\
    --max_total_processing_tasks=13|--pending_task_timeout_sec=0|--processing_task_timeout_sec=15|\
    --max_retry_attempts=16|--repair_bytes_per_second=1GB|--dynamic_replication_mode=enforce|\
    --dynamic_replication_heat_window_seconds=20|--dynamic_replication_admission_qps_threshold=1.5|\
    --dynamic_replication_max_memory_replicas=3|--enable_http_metadata_server|\
    --http_metadata_server_port=8081|--http_metadata_server_token=meta|--http_metadata_server_host=127.0.0.3|\
    --enable_metadata_cleanup_on_timeout|--metadata_cluster_id=blue/|--noha_warm_standby";

#[test]
fn every_flag_of_the_pool_arrives() {
    let expected = Config {
        leadership: LeadershipConfig::default(),
        pod: None,
        warm_standby: false,
        rpc_address: "127.0.0.1".to_owned(),
        rpc_port: 1234,
        metrics_host: "127.0.0.2".to_owned(),
        metrics_port: 4321,
        metadata_server: Some(MetadataServer {
            host: "127.0.0.3".to_owned(),
            port: 8081,
            auth_token: "meta".into(),
            cleanup_prefix: Some("mooncake/blue/".to_owned()),
        }),
        kv_events: None,
        cluster_id: "blue".to_owned(),
        auth_token: "x".into(),
        roles: None,
        tls: None,
        tcp_no_delay: false,
        idle_timeout_ms: 7_000,
        frame_timeout_ms: 30_000,
        max_connections: 9,
        busy_poll: Duration::from_micros(30),
        slow_call: Duration::from_millis(40),
        otel_endpoint: Some("http://c:4318".parse().expect("a URL")),
        report_metrics: false,
        tenant_quotas: None,
        pool: PoolConfig {
            lease_ttl_ms: 500,
            soft_pin_ttl_ms: 60_000,
            max_soft_pin_ttl_ms: 3_600_000,
            allow_evict_soft_pinned: false,
            eviction_policy: EvictionPolicy::S3Fifo,
            eviction_ratio: 0.1,
            eviction_high_watermark_ratio: 1.0,
            allocator: AllocatorKind::Cachelib,
            strategy: Strategy::FreeRatioFirst,
            client_ttl_ms: 3_000,
            put_discard_ms: 4_000,
            put_release_ms: 5_000,
            stripe_threshold_bytes: 64 << 20,
            max_finished_tasks: 11,
            max_pending_tasks: 12,
            max_processing_tasks: 13,
            pending_task_ms: 0,
            processing_task_ms: 15_000,
            max_task_retries: 16,
            repair_bytes_per_second: 1 << 30,
            replication: Replication {
                mode: ReplicationMode::Enforce,
                window_ms: 20_000,
                admission_qps: 1.5,
                max_replicas: 3,
            },
            shared_directory: None,
            ..PoolConfig::default()
        },
    };
    assert_eq!(settings(POOL), expected);
}

#[test]
fn every_flag_of_tenants_arrives() {
    let args = "--enable_multi_tenants|--cluster_id=blue/|--tenant_quota_connector_uri=";
    let value = |address: &str| QuotaSource::Value {
        address: address.to_owned(),
        key: "mooncake-store/blue/tenant_quota_policy".to_owned(),
    };
    for (rest, expected) in [
        ("q.yaml", QuotaSource::File("q.yaml".into())),
        ("h:1|--tenant_quota_connector_type=etcd", value("etcd://h:1")),
        ("etcd://h:1;h:2|--tenant_quota_connector_type=etcd", value("etcd://h:1;h:2")),
        ("h:1|--tenant_quota_connector_type=redis", value("redis://h:1")),
    ] {
        let settings =
            settings(&format!("{args}{rest}|--tenant_eviction_high_watermark_ratio=0.5"));
        let pool = settings.pool;
        assert_eq!((settings.tenant_quotas, pool.multi_tenants), (Some(expected), true));
        assert!((pool.tenant_eviction_high_watermark_ratio - 0.5).abs() < f64::EPSILON);
    }
    assert!(master_error("--enable_multi_tenants").contains("--tenant_quota_connector_uri"));
    let error = master_error("--tenant_eviction_high_watermark_ratio=2");
    assert!(error.contains("must be between 0 and 1"), "{error}");
}

#[test]
fn every_flag_of_disks_arrives() {
    let args = "--enable_offload|--offload-on-evict=1|--offload_force_evict=yes|--offloading_queue_limit=17|\
                --offload_cap_ratio=0.25|--promotion_on_hit|--promotion_admission_threshold=4|\
                --promotion_queue_limit=18|--promotion_max_per_heartbeat=9";
    let expected = PoolConfig {
        offload: true,
        offload_on_evict: true,
        offload_force_evict: true,
        offloading_queue_limit: 17,
        offload_cap_ratio: 0.25,
        promotion_on_hit: true,
        promotion_admission_threshold: 4,
        promotion_queue_limit: 18,
        ..settings("").pool
    };
    assert_eq!(settings(args).pool, expected);
}

#[test]
fn the_older_port_flag_counts_while_the_newer_is_zero() {
    let cases =
        [("", 50_051), ("--port=7", 7), ("--port=7|--rpc_port=8", 8), ("--rpc_port=0|--port=7", 7)];
    for (args, port) in cases {
        assert_eq!(settings(args).rpc_port, port, "{args}");
    }
}

#[test]
fn a_shared_directory_is_one_path_and_a_quota() {
    let expected = Some(SharedDirectory {
        path: "/mnt/pool/blue".to_owned(),
        most_bytes: 1 << 40,
        evicts: false,
    });
    let args =
        "--cluster_id=blue|--root_fs_dir=/mnt/pool/|--quota_bytes=1TB|--noenable_disk_eviction";
    assert_eq!(settings(args).pool.shared_directory, expected);
    let with_disks = settings(&format!("{args}|--enable_offload")).pool;
    assert_eq!((with_disks.offload, with_disks.shared_directory), (true, None));
}

#[test]
fn events_are_published_only_if_that_is_asked_for() {
    let args = "--kv_events_bind_endpoint=tcp://*:5557|--kv_events_backend_id=pool|\
                --kv_events_replay_endpoint=tcp://[::1]:5558|--nokv_events_emit_legacy_compat|\
                --kv_events_emit_object_key=false|--kv_events_queue_capacity=9";
    assert_eq!(settings(args).kv_events, None);
    let expected = KvEvents {
        subscribers: ("0.0.0.0".to_owned(), 5557),
        replays: Some(("::1".to_owned(), 5558)),
        backend_id: "pool".to_owned(),
        emit_legacy_compat: false,
        emit_object_key: false,
        queue_capacity: 9,
    };
    assert_eq!(settings(&format!("--enable_kv_events|{args}")).kv_events, Some(expected));
}

#[test]
fn secrets_are_shown_neither_by_flags_nor_by_configurations() {
    let secrets =
        "--auth_token=hunter2|--http_metadata_server_port=1|--http_metadata_server_token=hunter2";
    let of_master = master::parse(&words(secrets), &[]).expect("they are right");
    let of_client = client::parse(&words("--auth_token=hunter2"), &[]).expect("they are right");
    let config = settings(secrets);
    assert_eq!(&*config.auth_token, "hunter2");
    let of_store = StoreConfig { auth_token: "hunter2".into(), ..StoreConfig::default() };
    for shown in [
        format!("{of_master:?}"),
        format!("{of_client:?}"),
        format!("{config:?}"),
        format!("{of_store:?}"),
    ] {
        assert!(shown.contains("auth_token: ***") && !shown.contains("hunter2"), "{shown}");
    }
}

#[test]
fn the_metadata_server_is_off_unless_it_is_asked_for() {
    let metadata = |args: &str| settings(args).metadata_server;
    let server = |cleanup_prefix: Option<&str>| MetadataServer {
        host: "0.0.0.0".to_owned(),
        port: 8080,
        auth_token: Secret::default(),
        cleanup_prefix: cleanup_prefix.map(str::to_owned),
    };
    let cases = [
        ("", None),
        ("--http_metadata_server_port=9|--noenable_http_metadata_server", None),
        ("--enable_http_metadata_server=false|--http_metadata_server_host=0.0.0.0", None),
        ("--http_metadata_server_port=8080", Some(server(None))),
        ("--http_metadata_server_host|0.0.0.0|--metrics_port|9003", Some(server(None))),
        ("--enable_metadata_cleanup_on_timeout", None),
        ("--enable_http_metadata_server=false", None),
        ("--enable_http_metadata_server=true", Some(server(None))),
        (
            "--enable-http-metadata-server|--enable-metadata-cleanup-on-timeout",
            Some(server(Some("mooncake/"))),
        ),
    ];
    for (args, expected) in cases {
        assert_eq!(metadata(args), expected, "{args}");
    }
}

#[test]
fn one_of_several_masters_is_told_who_elects_the_leader() {
    let elected = |coordinator: &str, seconds| LeadershipConfig::Elected {
        coordinator: coordinator.to_owned(),
        ttl: Duration::from_secs(seconds),
        kubernetes: None,
    };
    for (args, expected) in [
        (
            "--state_dir=/srv",
            LeadershipConfig::Alone {
                state_dir: Some(StateDir { folder: "/srv".into(), is_required: true }),
            },
        ),
        ("--enable_ha=false|--etcd_endpoints=a:1;b:2", LeadershipConfig::default()),
        ("--noenable_ha|--ha_backend_connstring=a:1", LeadershipConfig::default()),
        ("--enable-ha|--etcd-endpoints|a:1;b:2", elected("etcd://a:1;b:2", 5)),
        (
            "--enable_ha=true|--ha-backend-type=redis|--ha-backend-connstring=h:6379|--ha-lease-ttl-sec=1",
            elected("redis://h:6379", 1),
        ),
        (
            "--enable_ha|--ha_backend_type=file|--ha_backend_connstring=file:///run/mooncake",
            elected("file:///run/mooncake", 5),
        ),
    ] {
        assert_eq!(settings(args).leadership, expected, "{args}");
    }
}

#[test]
fn three_masters_with_one_etcd_and_no_enable_ha_are_three_leaders() {
    for (args, flag) in [
        ("--etcd_endpoints=a:1;b:2", "--etcd_endpoints=a:1;b:2: "),
        (
            "--ha_backend_type=redis|--ha_backend_connstring=redis://u:p@h:1",
            "--ha_backend_connstring=redis://...@h:1: ",
        ),
    ] {
        let error = master_error(args);
        assert!(error.starts_with(flag) && error.contains("add --enable_ha"), "{error}");
    }
}

#[test]
fn what_existing_start_scripts_pass_is_accepted() {
    let scripts = [
        "--rpc_port=50051|--enable_http_metadata_server=true|--http_metadata_server_port=8080|--metrics_port=9003",
        "--rpc_address=0.0.0.0|--enable-http-metadata-server|--http_metadata_server_host|0.0.0.0",
        "-v=1|--logtostderr|--log_dir=/tmp|--stderrthreshold=0|--max_log_size=100|--nologtostderr",
        "--rpc_thread_num=16|--max_threads=8|--enable_metadata_cleanup_on_timeout=true",
        "--enable_ha=false|--etcd_endpoints=http://localhost:2379|--root_fs_dir=|--noenable_offload",
        "--enable_snapshot=false|--enable_multi_tenants=false|--dynamic_replication_mode=off",
        "--offloading_queue_limit=50000|--promotion_max_per_heartbeat=1|--enable_disk_eviction=true|--cxl_path=/dev/dax0.0|--enable_cxl=0",
        "--kv_events_emit_legacy_compat=true|--enable_kv_events=false|--pod_name=a",
    ];
    for script in scripts {
        settings(script);
    }
}

/// Lines like `rpc_port=0`, with comments.
const OF_CPP_MASTER: &str = include_str!("flags_of_cpp_master.txt");
const OF_CPP_CLIENT: &str = include_str!("flags_of_cpp_client.txt");

fn flags_in(text: &str) -> Vec<String> {
    let flags = text.lines().filter(|line| !line.starts_with('#'));
    flags.map(|flag| format!("--{flag}")).collect()
}

#[test]
fn every_flag_of_the_cpp_client_is_taken() {
    let all = flags_in(OF_CPP_CLIENT);
    assert!(all.len() > 40, "{}", all.len());
    client::parse(&all, &[]).expect("their defaults are good here");
}

#[test]
fn every_flag_of_the_cpp_master_is_taken() {
    let all = flags_in(OF_CPP_MASTER);
    assert!(all.len() > 130, "{}", all.len());
    let flags = master::parse(&all, &[]).expect("their defaults are good here");
    flags.settings(LeadershipEnvironment::default()).expect("so they are together");
}

#[test]
fn features_that_are_not_here_are_warned_of_and_stop_no_master() {
    let args = "--enable_snapshot=true|--enable_oplog=true|--enable_oplog_snapshot|\
                --enable_cxl|--handler_worker_thread_num=4|\
                --weight_import_idle_timeout_ms=1000|--snapshot_chunk_object_count=5|--nof_eviction_ratio=0.1|\
                --kv_events_model_name=m|--oplog_poll_interval_ms=5|\
                --enable_snapshot_restore=false";
    let flags = master::parse(&words(args), &[]).expect("all are taken");
    let mut expected: Vec<String> = words(args)
        .iter()
        .filter(|word| !word.ends_with("=false"))
        .map(|word| word.split('=').next().unwrap_or_default().replace('-', "_"))
        .map(|name| format!("--{}", name.trim_start_matches('_')))
        .collect();
    let mut told = flags.without_effect;
    expected.sort_unstable();
    told.sort_unstable();
    assert_eq!(told, expected);
}

#[test]
fn strategies_of_the_cpp_master_that_are_not_here_have_stand_ins() {
    let strategy = |name: &str| settings(&format!("--allocation_strategy={name}")).pool.strategy;
    assert_eq!(strategy("ssd_free_ratio_first"), Strategy::FreeRatioFirst);
    assert_eq!(strategy("cxl"), Strategy::Random);
}

#[test]
fn newer_flags_have_limits_too() {
    let error = master_error("--enable_snapshot=maybe");
    assert!(error.starts_with("invalid value 'maybe' for '--enable_snapshot"), "{error}");
    let error = master_error("--client_active_ttl_sec=0");
    assert!(error.starts_with("--client_ttl is 0: it must be positive"), "{error}");
}

#[test]
fn newer_names_of_timeouts_count() {
    for (args, active, suspicion) in [
        ("", 10, 0),
        ("--client_ttl=7", 7, 0),
        ("--client_ttl=7|--client_active_ttl_sec=3", 3, 3),
        ("--client_active_ttl_sec=3|--client_suspicion_ttl_sec=0", 3, 0),
        ("--client_suspicion_ttl_sec=20", 10, 20),
    ] {
        let pool = settings(args).pool;
        let ttls = (pool.client_ttl_ms, pool.suspicion_ttl_ms);
        assert_eq!(ttls, (active * 1_000, suspicion * 1_000), "{args}");
    }
    let elected = settings("--enable_ha|--etcd_endpoints=a:1|--ha_leader_lease_ttl_sec=9");
    let coordinator = "etcd://a:1".to_owned();
    let ttl = Duration::from_secs(9);
    let expected = LeadershipConfig::Elected { coordinator, ttl, kubernetes: None };
    assert_eq!(elected.leadership, expected);
}

#[test]
fn every_bad_flag_is_named() {
    let cases = [
        ("--rpc_prt=1", "unknown flag --rpc_prt; did you mean --rpc_port?"),
        ("--zzz", "unknown flag --zzz"),
        ("--rpc_port", "flag --rpc_port needs a value"),
        ("master", "unexpected argument 'master'"),
        ("--rpc_port=x", "invalid value 'x' for '--rpc_port <PORT>'"),
        ("--rpc_port=70000", "invalid value '70000' for '--rpc_port <PORT>'"),
        ("--metrics_port=-1", "invalid value '-1' for '--metrics_port <PORT>'"),
        ("--enable_metric_reporting=maybe", "invalid value 'maybe' for '--enable_metric_reporting"),
        ("--default_kv_lease_ttl=5d", "invalid value '5d' for '--default_kv_lease_ttl <DURATION>'"),
        (
            "--stripe_threshold_bytes=50%",
            "invalid value '50%' for '--stripe_threshold_bytes <SIZE>'",
        ),
        (
            "--memory_allocator=jemalloc",
            "invalid value 'jemalloc' for '--memory_allocator <NAME>' [possible values: offset, cachelib]",
        ),
        (
            "--eviction_policy=mru",
            "invalid value 'mru' for '--eviction_policy <NAME>' [possible values: adaptive, lru, s3fifo, sieve]",
        ),
        (
            "--allocation_strategy=best",
            "invalid value 'best' for '--allocation_strategy <NAME>' [possible values: random, free_ratio_first, local_first]",
        ),
        ("--log_level=loud", "invalid value 'loud' for '--log_level <LEVEL>'"),
        ("--eviction_ratio=7", "--eviction_ratio is 7: it must be between 0 and 1"),
        ("--eviction_high_watermark_ratio=nan", "--eviction_high_watermark_ratio is NaN"),
        ("--client_ttl=0", "--client_ttl is 0: it must be positive"),
        ("--default_kv_soft_pin_ttl=169h", "--default_kv_soft_pin_ttl is 608400000 ms"),
        ("--put_start_release_timeout_sec=1", "--put_start_release_timeout"),
        ("--stripe_threshold_bytes=1", "--stripe_threshold_bytes is 1"),
        (
            "--repair_bytes_per_second=fast",
            "invalid value 'fast' for '--repair_bytes_per_second <SIZE>'",
        ),
        (
            "--dynamic_replication_mode=on",
            "invalid value 'on' for '--dynamic_replication_mode <MODE>' [possible values: off, observe, enforce]",
        ),
        (
            "--dynamic_replication_heat_window_seconds=0",
            "--dynamic_replication_heat_window_seconds is 0: it must be positive",
        ),
        (
            "--dynamic_replication_admission_qps_threshold=0",
            "--dynamic_replication_admission_qps_threshold is 0: it must be positive",
        ),
        (
            "--dynamic_replication_admission_qps_threshold=nan",
            "--dynamic_replication_admission_qps_threshold is NaN",
        ),
        (
            "--dynamic_replication_max_memory_replicas=0",
            "--dynamic_replication_max_memory_replicas is 0: it must be between 1 and 32",
        ),
        (
            "--dynamic_replication_max_memory_replicas=33",
            "--dynamic_replication_max_memory_replicas is 33: it must be between 1 and 32",
        ),
        ("--enable_offload=maybe", "invalid value 'maybe' for '--enable_offload"),
        ("--config_path=/nowhere/m.yaml", "config file /nowhere/m.yaml: "),
    ];
    for (args, expected) in cases {
        let error = master_error(args);
        assert!(error.starts_with(expected), "{args}: {error}");
        assert!(!error.contains('\n'), "{args}: {error}");
    }
}

#[test]
fn flags_that_contradict_each_other_or_are_out_of_range_are_refused() {
    let cases = [
        (
            "--enable_ha",
            "--enable_ha needs --ha_backend_connstring (for etcd, --etcd_endpoints will do): where the leader is \
             elected",
        ),
        (
            "--ha_lease_ttl_sec=0",
            "invalid value '0' for '--ha_lease_ttl_sec <SECONDS>': 0 is not in 1..=3600",
        ),
        (
            "--ha_backend_type=zookeeper",
            "invalid value 'zookeeper' for '--ha_backend_type <NAME>' [possible values: etcd, redis, k8s, file]",
        ),
        (
            "--offloading_queue_limit=0",
            "--offloading_queue_limit is 0: it must be between 1 and 100000000",
        ),
        ("--offload_cap_ratio=1.5", "--offload_cap_ratio is 1.5: it must be between 0 and 1"),
        (
            "--promotion_queue_limit=100000001",
            "--promotion_queue_limit is 100000001: it must be between 1 and 100000000",
        ),
        (
            "--promotion_admission_threshold=0",
            "--promotion_admission_threshold is 0: it must be positive",
        ),
        (
            "--root_fs_dir=mnt",
            "--root_fs_dir=mnt: it must begin with '/', since nodes run elsewhere",
        ),
        (
            "--root_fs_dir=/mnt|--quota_bytes=1MB",
            "--quota_bytes and --global_file_segment_size must be at least 16777216",
        ),
        ("--enable_kv_events", "--enable_kv_events needs --kv_events_backend_id"),
    ];
    for (args, expected) in cases {
        assert_eq!(master_error(args), expected, "{args}");
    }
}

#[test]
fn flags_win_over_variables_over_the_file_over_the_defaults() {
    let path = file(
        "order.yaml",
        "rpc_port: 1\nmetrics_port: 2\nauth_token: file\nclient_live_ttl_sec: 3\n",
    );
    let path = format!("--config_path={}", path.display());
    let token =
        |value: Option<&str>| Variable { flag: "auth_token", value: value.map(str::to_owned) };
    let config = |args: &[&str], variable| {
        let args: Vec<String> = args.iter().map(ToString::to_string).collect();
        master::parse(&args, &[token(variable)])
            .expect("good flags")
            .settings(LeadershipEnvironment::default())
            .expect("good flags")
    };
    let found = config(&["--rpc_port=9", &path], None);
    let expected = Config {
        rpc_port: 9,
        metrics_port: 2,
        auth_token: "file".into(),
        pool: PoolConfig { client_ttl_ms: 3_000, ..PoolConfig::default() },
        ..Config::default()
    };
    assert_eq!(found, expected);
    assert_eq!(config(&[&path], Some("variable")).auth_token, "variable".into());
    assert_eq!(config(&[&path, "--auth_token=flag"], Some("variable")).auth_token, "flag".into());
    assert_eq!(config(&[], Some("variable")).auth_token, "variable".into());
}

#[test]
fn what_is_wrong_in_a_file_is_named_with_the_file() {
    let cases = [
        (
            "twice.yaml",
            "rpc_port: 1\nrpc_port: 2\n",
            ": the key rpc_port stands there twice, the second time in line 2",
        ),
        ("list.yaml", "- rpc_port", "must hold a mapping of flag names to values, not a list"),
        (
            "type.json",
            r#"{"rpc_port": [1]}"#,
            "the value of rpc_port must be a text, a number or true/false, not a list",
        ),
        ("value.yaml", "rpc_port: many", "invalid value 'many' for '--rpc_port <PORT>'"),
        ("broken.json", r#"{"rpc_port": 1"#, "is neither JSON nor YAML: "),
    ];
    for (name, text, expected) in cases {
        let path = file(name, text);
        let error = master_error(&format!("--config_path={}", path.display()));
        assert!(error.starts_with(&format!("config file {}", path.display())), "{error}");
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_feature_that_is_not_here_is_warned_of_if_a_file_asks_for_it() {
    let path = file("feature.yaml", "enable_cxl: true\nenable_oplog: false\n");
    let args = format!("--config_path={}", path.display());
    let flags = master::parse(&words(&args), &[]).expect("it stops no master");
    assert_eq!(flags.without_effect, ["--enable_cxl"]);
}

#[test]
fn a_lease_of_no_length_is_refused() {
    let error = master_error("--default_kv_lease_ttl=0");
    assert_eq!(error, "--default_kv_lease_ttl is 0: it must be positive");
}

#[test]
fn keys_of_other_versions_in_a_file_are_named_and_change_nothing() {
    let text = r#"{"enable_gc": true, "rpc_prt": 1, "log_colours": ["red"], "rpc_port": 9}"#;
    let path = format!("--config_path={}", file("other.json", text).display());
    for said in [
        master::parse(&words(&path), &[]).map(|flags| flags.unknown_keys).expect("good flags"),
        client::parse(&words(&path), &[]).map(|flags| flags.unknown_keys).expect("good flags"),
    ] {
        let keys: Vec<_> = said.iter().map(|unknown| unknown.key.as_str()).collect();
        assert_eq!(keys[..2], ["enable_gc", "log_colours"]);
    }
    assert_eq!(settings(&path).rpc_port, 9);
}

#[test]
fn flags_of_gflags_and_glog_are_taken_and_others_are_not() {
    let args = "--undefok=x|--flagfile=|--logtostderr|--log_dir=/tmp|--alsologtoemail=|--log_year_in_prefix|-v=2";
    assert_eq!(settings(args), Config::default());
    assert_eq!(master_error("--flagfil=x"), "unknown flag --flagfil; did you mean --flagfile?");
}

#[test]
fn a_config_file_of_the_usual_kind_is_accepted() {
    let text = "enable_metric_reporting: true\nmetrics_port: 9003\nrpc_port: 50051\nrpc_thread_num: 16\n\
                rpc_address: \"0.0.0.0\"\nrpc_interface: \"\"\ndefault_kv_lease_ttl: 5000\nenable_ha: false\n\
                etcd_endpoints: \"http://localhost:2379\"\nroot_fs_dir: \"\"\nmemory_allocator: \"offset\"\n\
                client_live_ttl_sec: 10\ndynamic_replication_mode: \"off\"\n";
    let path = file("usual.yaml", text);
    assert_eq!(settings(&format!("--config_path={}", path.display())), Config::default());
}

#[test]
fn help_and_version_are_texts() {
    let text = |args: &str| match master::parse(&words(args), &[]) {
        Err(UsageError::Requested(text)) => text,
        other => panic!("{args}: {other:?}"),
    };
    assert_eq!(text("--version"), format!("mooncake_master {}\n", env!("CARGO_PKG_VERSION")));
    for args in ["--help", "-h", "-help", "--rpc_port=1|--help"] {
        let help = text(args);
        for part in
            ["\nRPC:\n", "\nObjects:\n", "\nPool:\n", "--eviction_ratio <RATIO>", "[default: 5s]"]
        {
            assert!(help.contains(part), "{part} is missing in\n{help}");
        }
    }
}

#[test]
fn a_storage_node_serves_http_where_it_is_told_to() {
    let http = |args: &str| client::parse(&words(args), &[]).expect("good flags").http.address();
    let address = |host: &str, port| Some(HttpAddress { host: host.to_owned(), port });
    let cases = [
        ("", None),
        ("--http_port=9301", None),
        ("--enable_http_server=false|--http_port=9301", None),
        ("--enable_http_server", address("0.0.0.0", 9300)),
        ("--enable-http-server=1|--http-port|9301", address("0.0.0.0", 9301)),
        ("--enable_http_server|--http_host=127.0.0.1|--http_port=0", address("127.0.0.1", 0)),
    ];
    for (args, expected) in cases {
        assert_eq!(http(args), expected, "{args}");
    }
}

#[test]
fn a_storage_node_takes_sizes_as_people_write_them() {
    let parse = |args: &str| client::parse(&words(args), &[]);
    let size = |args: &str| parse(args).expect("good flags").node.global_segment_size.0;
    let cases = [
        ("", 4 << 30),
        ("--global_segment_size=4 GB", 4 << 30),
        ("--global_segment_size|512MB", 512 << 20),
        ("-global-segment-size=1g", 1 << 30),
        ("--global_segment_size=4096", 4096),
    ];
    for (args, bytes) in cases {
        assert_eq!(size(args), bytes, "{args}");
    }
    let errors = [
        (
            "--global_segment_size=50%",
            "invalid value '50%' for '--global_segment_size <SIZE>': a percentage is not",
        ),
        ("--protocol=ascend", "--protocol=ascend: this transport is not supported in this build"),
        ("--enable_http_server=maybe", "invalid value 'maybe' for '--enable_http_server"),
        ("--http_port=70000", "invalid value '70000' for '--http_port <PORT>'"),
        ("--tenant_id=_a", "--tenant_id=_a: a tenant has a name of 1 to 128 bytes"),
        (
            "--master_server_adress=x",
            "unknown flag --master_server_adress; did you mean --master_server_address?",
        ),
    ];
    for (args, expected) in errors {
        let error = parse(args).expect_err(args).to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}
