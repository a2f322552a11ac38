use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::{debug, warn};

/// Files that a process opens besides its connections.
const OTHERS: u64 = 512;

/// Raises the limit of open files to the system's maximum. Each connection needs one, and the usual limit of 1024 is
/// too low for a large cluster. Warns if the maximum is too low for this many connections; `wanted_by` says who wants
/// them.
pub(crate) fn allow_many(connections: u64, wanted_by: &str) {
    let limit = getrlimit(Resource::Nofile);
    let needed = connections.saturating_add(OTHERS);
    let maximum = match limit.maximum {
        // Only a privileged process may raise the maximum.
        Some(maximum) if maximum < needed && raise(Some(needed)) => Some(needed),
        maximum => {
            if limit.current != maximum && !raise(maximum) {
                debug!("the limit of open files stays as it is");
            }
            maximum
        }
    };
    if let Some(warning) = maximum.and_then(|maximum| shortage(maximum, connections, wanted_by)) {
        warn!("{warning}");
    }
}

/// The warning about a limit that this many connections do not fit into.
fn shortage(maximum: u64, connections: u64, wanted_by: &str) -> Option<String> {
    let needed = connections.saturating_add(OTHERS);
    (maximum < needed).then(|| {
        format!(
            "{wanted_by}: this process may open {maximum} files, which is enough for some {} connections; raise the \
             hard limit of ulimit -n (LimitNOFILE of systemd) to {needed}",
            maximum.saturating_sub(OTHERS)
        )
    })
}

fn raise(limit: Option<u64>) -> bool {
    setrlimit(Resource::Nofile, Rlimit { current: limit, maximum: limit }).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_that_the_limit_of_open_files_does_not_allow_are_named() {
        let warning = shortage(4096, 16_384, "--max_connections=16384").expect("it is too low");
        assert!(warning.starts_with("--max_connections=16384: this process may open 4096 files"));
        assert!(warning.contains("some 3584 connections") && warning.ends_with("to 16896"));
        assert_eq!(shortage(16_896, 16_384, "x"), None);
        assert!(shortage(40, u64::MAX, "x").is_some_and(|it| it.contains("some 0 connections")));
    }
}
