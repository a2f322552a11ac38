//! Whether a node waits for its master.

use std::path::Path;

use crate::quantity::Switch;

/// The variable that limits the wait.
const LIMIT: &str = "MC_RPC_CONNECT_TIMEOUT_MS";

/// Variables that only containers have: of Kubernetes; of podman, LXC and systemd-nspawn.
const VARIABLES: [&str; 2] = ["KUBERNETES_SERVICE_HOST", "container"];

/// Files that only containers have: of Docker; of podman.
const FILES: [&str; 2] = ["/.dockerenv", "/run/.containerenv"];

/// Whether a node with this `--wait_for_master` waits for as long as it takes.
pub(super) fn waits(flag: Option<Switch>) -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some();
    let exists = |path: &str| Path::new(path).exists();
    decide(flag, is_set, exists)
}

fn decide(
    flag: Option<Switch>,
    is_set: impl Fn(&str) -> bool,
    exists: impl Fn(&str) -> bool,
) -> bool {
    // Outside of a container, people start nodes by hand, and want to learn that the address is wrong.
    let is_in_container = || VARIABLES.into_iter().any(&is_set) || FILES.into_iter().any(&exists);
    flag.map_or_else(|| !is_set(LIMIT) && is_in_container(), |flag| flag.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_wait_in_containers_and_where_the_flag_says_so() {
        for (flag, here, expected) in [
            (None, &[] as &[&str], false),
            (Some(true), &[], true),
            (None, &["KUBERNETES_SERVICE_HOST"], true),
            (None, &["container"], true),
            (None, &["/.dockerenv"], true),
            (None, &["/run/.containerenv"], true),
            (None, &["/.dockerenv", LIMIT], false),
            (Some(true), &[LIMIT], true),
            (Some(false), &["KUBERNETES_SERVICE_HOST"], false),
        ] {
            let is_here = |name: &str| here.contains(&name);
            assert_eq!(decide(flag.map(Switch), is_here, is_here), expected, "{flag:?} {here:?}");
        }
    }
}
