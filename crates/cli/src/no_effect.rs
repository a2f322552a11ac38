//! Warnings about flags and variables that have no effect here.

use clap::ArgMatches;
use clap::parser::ValueSource;
use mooncake_client::no_effect::{asks_for_nothing, instead_of, variables, warning};

/// The given flags that have no effect, with their dashes, from the command line or the configuration file.
pub(crate) fn given(matches: &ArgMatches) -> Vec<String> {
    let ids = matches.ids().map(clap::Id::as_str).filter(|id| instead_of(id).is_some());
    let given = ids.filter(|id| matches.value_source(id) == Some(ValueSource::CommandLine));
    given.filter(|id| asks_for_something(matches, id)).map(|id| format!("--{id}")).collect()
}

fn asks_for_something(matches: &ArgMatches, id: &str) -> bool {
    let values = matches.get_raw(id).into_iter().flatten();
    values.last().is_some_and(|value| !asks_for_nothing(&value.to_string_lossy()))
}

/// Logs one warning with these flags and the variables that have no effect, and what happens instead.
pub(crate) fn warn_of(flags: &[String]) {
    let names: Vec<String> = flags.iter().cloned().chain(variables()).collect();
    if let Some(warning) = warning(&names) {
        tracing::warn!("{warning}");
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::{client, glog, master};

    #[test]
    fn every_flag_that_is_accepted_without_effect_says_what_happens_instead() {
        let bare = |command: clap::Command| -> Vec<String> {
            command.get_arguments().map(|arg| arg.get_id().as_str().to_owned()).collect()
        };
        let mut accepted = bare(glog::add_to(clap::Command::new("x")));
        accepted.extend(master::flags_of_absent_features());
        // These ask for standard error, to which this store logs in any case.
        accepted.retain(|name| !matches!(&**name, "logtostderr" | "alsologtostderr"));
        let all = [client::ClientFlags::command(), master::MasterFlags::command()];
        let serving = all.into_iter().flat_map(bare);
        // Flags of these programs that have no effect.
        let known = [
            "rpc_thread_num",
            "max_threads",
            "promotion_max_per_heartbeat",
            "metadata_server",
            "device_names",
        ];
        assert_eq!(known.map(|name| instead_of(name).is_some()), [true; 5]);
        for name in accepted {
            assert!(instead_of(&name).is_some(), "{name}");
        }
        for name in serving.filter(|name| instead_of(name).is_some()) {
            let is_accepted = known.contains(&&*name) || name == "start_offload_rpc_server";
            assert!(is_accepted, "{name} has an effect");
        }
    }
}
