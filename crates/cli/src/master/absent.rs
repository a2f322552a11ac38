//! Flags of the C++ master for features that this build lacks or does not need. Existing start scripts and configuration
//! files pass them, so they are taken. Those that ask for something are named in the warning at the start, with what
//! happens instead.

use clap::{Arg, ArgAction, Command};

use crate::quantity::Switch;

/// Flags with a truth value.
const SWITCHES: &[&str] = &[
    "enable_oplog",
    "enable_oplog_snapshot",
    "weight_management_oplog_capability_confirmed",
    "enable_snapshot",
    "enable_snapshot_restore",
    "enable_cxl",
];

/// Flags with any other value.
const SETTINGS: &[&str] = &[
    "oplog_poll_interval_ms",
    "oplog_batch_max_entries",
    "batch_oplog_retry_timeout_sec",
    "snapshot_interval_seconds",
    "snapshot_chunk_object_count",
    "snapshot_child_timeout_seconds",
    "snapshot_retention_count",
    "snapshot_object_store_type",
    "snapshot_payload_store_type",
    "snapshot_payload_backend_type",
    "snapshot_backup_dir",
    "snapshot_catalog_store_type",
    "snapshot_catalog_store_connstring",
    "snapshot_catalog_backend_type",
    "snapshot_catalog_backend_connstring",
    "weight_import_idle_timeout_ms",
    "kv_events_model_name",
    "kv_events_tenant_id",
    "kv_events_additional_salt",
    "kv_events_lora_name",
    "kv_events_block_size",
    "kv_events_dp_rank",
    "nof_eviction_ratio",
    "nof_eviction_high_watermark_ratio",
    "nof_heartbeat_interval_sec",
    "nof_heartbeat_probe_timeout_ms",
    "nof_heartbeat_failures_threshold",
    "cxl_path",
    "cxl_size",
    "handler_worker_thread_num",
];

/// Adds these flags to a command.
#[must_use]
pub(super) fn add_to(command: Command) -> Command {
    let arg = |name: &&'static str| Arg::new(*name).long(*name).action(ArgAction::Set).hide(true);
    let switch = |name| {
        let arg = arg(name).num_args(0..=1).default_missing_value("true").value_name("BOOL");
        arg.value_parser(|word: &str| word.parse::<Switch>())
    };
    let setting = |name| arg(name).value_name("VALUE");
    command.args(SWITCHES.iter().map(switch)).args(SETTINGS.iter().map(setting))
}

/// The names of all of these flags.
#[cfg(test)]
pub(crate) fn names() -> Vec<String> {
    SWITCHES.iter().chain(SETTINGS).map(|name| (*name).to_owned()).collect()
}
