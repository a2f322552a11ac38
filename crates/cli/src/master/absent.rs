//! Flags of features that this build lacks. They are known, so that existing start scripts and configuration files
//! work. A value that leaves the feature off has no effect. A value that turns it on is refused.

use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::quantity::truth;

/// The kind of a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// Turns a feature on, if true.
    Switch,
    /// A setting of a feature, which turns nothing on.
    Setting,
}

struct Feature {
    name: &'static str,
    flags: &'static [(&'static str, Shape)],
}

const FEATURES: &[Feature] = &[
    Feature {
        name: "the label of the leading pod",
        flags: &[("pod_name", Shape::Setting), ("pod_namespace", Shape::Setting)],
    },
    Feature {
        name: "the operation log, which no master needs here to take over,",
        flags: &[
            ("enable_oplog", Shape::Switch),
            ("oplog_poll_interval_ms", Shape::Setting),
            ("oplog_batch_max_entries", Shape::Setting),
            ("batch_oplog_retry_timeout_sec", Shape::Setting),
        ],
    },
    Feature {
        name: "snapshot keeping",
        flags: &[
            ("enable_snapshot", Shape::Switch),
            ("enable_snapshot_restore", Shape::Switch),
            ("snapshot_interval_seconds", Shape::Setting),
            ("snapshot_child_timeout_seconds", Shape::Setting),
            ("snapshot_retention_count", Shape::Setting),
            ("snapshot_object_store_type", Shape::Setting),
            ("snapshot_payload_store_type", Shape::Setting),
            ("snapshot_payload_backend_type", Shape::Setting),
            ("snapshot_backup_dir", Shape::Setting),
            ("snapshot_catalog_store_type", Shape::Setting),
            ("snapshot_catalog_store_connstring", Shape::Setting),
            ("snapshot_catalog_backend_type", Shape::Setting),
            ("snapshot_catalog_backend_connstring", Shape::Setting),
        ],
    },
    Feature {
        name: "multi-tenancy",
        flags: &[
            ("enable_multi_tenants", Shape::Switch),
            ("tenant_quota_connector_type", Shape::Setting),
            ("tenant_quota_connector_uri", Shape::Setting),
        ],
    },
    Feature {
        name: "naming of models in KV events, which consumers know from the engines,",
        flags: &[
            ("kv_events_model_name", Shape::Setting),
            ("kv_events_tenant_id", Shape::Setting),
            ("kv_events_additional_salt", Shape::Setting),
            ("kv_events_lora_name", Shape::Setting),
            ("kv_events_block_size", Shape::Setting),
            ("kv_events_dp_rank", Shape::Setting),
        ],
    },
    Feature {
        name: "NVMe-oF segments",
        flags: &[
            ("nof_eviction_ratio", Shape::Setting),
            ("nof_eviction_high_watermark_ratio", Shape::Setting),
            ("nof_heartbeat_interval_sec", Shape::Setting),
            ("nof_heartbeat_probe_timeout_ms", Shape::Setting),
            ("nof_heartbeat_failures_threshold", Shape::Setting),
        ],
    },
    Feature {
        name: "CXL memory",
        flags: &[
            ("enable_cxl", Shape::Switch),
            ("cxl_path", Shape::Setting),
            ("cxl_size", Shape::Setting),
        ],
    },
];

/// The heading of these flags in `--help`.
const HEADING: &str =
    "Not in this build (accepted while off; so are all settings of these features)";

/// Adds these flags to a command.
#[must_use]
pub(super) fn add_to(command: Command) -> Command {
    let flags = FEATURES.iter().flat_map(|feature| {
        feature.flags.iter().map(|(flag, shape)| {
            let arg = Arg::new(*flag).long(*flag).action(ArgAction::Set).help_heading(HEADING);
            let arg = match shape {
                Shape::Switch => {
                    arg.num_args(0..=1).default_missing_value("true").value_name("BOOL")
                }
                _ => arg.value_name("VALUE"),
            };
            match shape {
                Shape::Setting => arg.hide(true),
                _ => arg.help(format!("Part of {}", feature.name.trim_end_matches(','))),
            }
        })
    });
    command.args(flags)
}

/// The names of the flags that are settings.
#[cfg(test)]
pub(crate) fn settings() -> Vec<String> {
    let all = FEATURES.iter().flat_map(|feature| feature.flags);
    let is_setting = |shape: &Shape| matches!(shape, Shape::Setting);
    all.filter(|(_, shape)| is_setting(shape)).map(|(name, _)| (*name).to_owned()).collect()
}

/// Refuses the first flag that turns a feature on.
///
/// # Errors
/// The text names the flag, its value and the feature.
pub(super) fn check(matches: &ArgMatches) -> Result<(), String> {
    for feature in FEATURES {
        for (flag, shape) in feature.flags {
            let Some(value) = matches.get_one::<String>(flag) else { continue };
            check_value(feature.name, flag, *shape, value)?;
        }
    }
    Ok(())
}

fn check_value(feature: &str, flag: &str, shape: Shape, value: &str) -> Result<(), String> {
    let on = match shape {
        Shape::Switch => truth(value).ok_or_else(|| {
            format!("invalid value '{value}' for '--{flag}': expected true, false, 1, 0, yes or no")
        })?,
        Shape::Setting => false,
    };
    match on {
        true => Err(format!("--{flag}={value}: {feature} is not supported in this build")),
        false => Ok(()),
    }
}
