//! Flags of glog, of gflags and of the arena allocator, which start scripts of the C++ store pass. This store logs to standard
//! error, at `--log_level`.

use clap::{Arg, ArgAction, Command};
use mooncake_client::no_effect::{GFLAGS_VALUES, GLOG_SWITCHES, GLOG_VALUES};

/// Flags that ask for standard error, to which this store logs in any case.
const ASK_FOR_STDERR: &[&str] = &["logtostderr", "alsologtostderr"];

const ARENA_SWITCHES: &[&str] = &["use_mmap_arena_allocator"];
const ARENA_VALUES: &[&str] = &["mmap_arena_pool_size"];

/// Adds the flags to a command, without effect.
#[must_use]
pub(crate) fn add_to(command: Command) -> Command {
    let arg = |name: &&'static str| Arg::new(*name).long(*name).action(ArgAction::Set).hide(true);
    let switch = |name| arg(name).num_args(0..=1).default_missing_value("true").value_name("BOOL");
    let value = |name| arg(name).value_name("VALUE");
    let switches = ASK_FOR_STDERR.iter().chain(GLOG_SWITCHES).chain(ARENA_SWITCHES).map(switch);
    let values = GLOG_VALUES.iter().chain(GFLAGS_VALUES).chain(ARENA_VALUES).map(value);
    command.args(switches).args(values)
}
