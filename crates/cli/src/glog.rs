//! Flags of glog, which start scripts of the C++ store pass. Logs go to standard error here, at `--log_level`.

use clap::{Arg, ArgAction, Command};

const SWITCHES: &[&str] = &[
    "logtostderr",
    "alsologtostderr",
    "logtostdout",
    "colorlogtostderr",
    "colorlogtostdout",
    "log_prefix",
    "log_utc_time",
    "stop_logging_if_full_disk",
    "timestamp_in_logfile_name",
];

const VALUES: &[&str] = &[
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
    "logfile_mode",
];

/// Adds these flags, without effect, to a command.
#[must_use]
pub(crate) fn add_to(command: Command) -> Command {
    let arg = |name: &&'static str| Arg::new(*name).long(*name).action(ArgAction::Set).hide(true);
    let switch = |name| arg(name).num_args(0..=1).default_missing_value("true").value_name("BOOL");
    let value = |name| arg(name).value_name("VALUE");
    command.args(SWITCHES.iter().map(switch)).args(VALUES.iter().map(value))
}
