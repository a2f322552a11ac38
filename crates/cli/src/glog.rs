//! Flags of glog, which start scripts of the C++ store pass. Logs go to standard error here, at `--log_level`.

use clap::{Arg, ArgAction, Command};
use mooncake_client::no_effect::{GLOG_SWITCHES, GLOG_VALUES};

/// Those that ask for what happens anyway.
const ASK_FOR_STDERR: &[&str] = &["logtostderr", "alsologtostderr"];

/// Adds these flags, without effect, to a command.
#[must_use]
pub(crate) fn add_to(command: Command) -> Command {
    let arg = |name: &&'static str| Arg::new(*name).long(*name).action(ArgAction::Set).hide(true);
    let switch = |name| arg(name).num_args(0..=1).default_missing_value("true").value_name("BOOL");
    let value = |name| arg(name).value_name("VALUE");
    let switches = ASK_FOR_STDERR.iter().chain(GLOG_SWITCHES).map(switch);
    command.args(switches).args(GLOG_VALUES.iter().map(value))
}
