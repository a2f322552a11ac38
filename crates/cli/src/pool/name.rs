//! The flags by which all commands name a pool.

use clap::Args;
use mooncake_http::admin;

use crate::master_http;

/// Where a master serves clients by default.
const DEFAULT_MASTER: &str = "127.0.0.1:50051";

/// A pool, as the command line or the environment names it.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct PoolName {
    /// The pool: its master HOST:PORT, or several with commas between them; the coordinator that knows the leader, like
    /// etcd://HOST:PORT;HOST:PORT, redis://, k8s:// or file://; or the folder of a pool without masters,
    /// local:///FOLDER [default: MOONCAKE_MASTER, or 127.0.0.1:50051].
    #[arg(long, value_name = "POOL")]
    pub(crate) master: Option<String>,
    /// Where the masters serve admin HTTP, with commas between them, or what knows the leader, as in --master
    /// [default: MOONCAKE_MASTER_HTTP, or port 9003 of the hosts of --master].
    #[arg(long, value_name = "HOST:PORT", alias = "master_http")]
    pub(crate) master_http: Option<String>,
    /// Cluster id of the pool [default: that of clients].
    #[arg(long, value_name = "ID", alias = "cluster_id")]
    pub(crate) cluster_id: Option<String>,
}

impl PoolName {
    /// The address that clients and nodes join at.
    pub(crate) fn master(&self) -> String {
        let named = self.master.clone().or_else(|| variable("MOONCAKE_MASTER"));
        named.unwrap_or_else(|| DEFAULT_MASTER.to_owned())
    }

    /// Where admin HTTP is, if the user says so. The variable is about the pool of the other variable: it does not
    /// count beside `--master`.
    pub(crate) fn named_admin(&self) -> Option<String> {
        let by_variable = || variable("MOONCAKE_MASTER_HTTP").filter(|_| self.master.is_none());
        self.master_http.clone().or_else(by_variable)
    }

    /// The addresses of the masters' admin servers, `host:port`, at least one.
    ///
    /// # Errors
    /// An address is wrong, the coordinator names no leader, or the pool has no such servers.
    pub(crate) fn admin_addresses(&self) -> Result<Vec<String>, String> {
        match self.named_admin() {
            Some(text) => master_http::addresses(&text, self.cluster_id.as_deref()),
            None => beside(&self.master(), self.cluster_id.as_deref()),
        }
    }

    /// The same for a command that takes addresses without a flag, too.
    ///
    /// # Errors
    /// As [`PoolName::admin_addresses`].
    pub(crate) fn admin_addresses_or(&self, given: &[String]) -> Result<Vec<String>, String> {
        match given.is_empty() {
            true => self.admin_addresses(),
            false => master_http::addresses(&given.join(";"), self.cluster_id.as_deref()),
        }
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}

/// The admin servers of the masters at these addresses, on their usual port.
fn beside(master: &str, cluster_id: Option<&str>) -> Result<Vec<String>, String> {
    let master = master.trim();
    if master.starts_with("local://") {
        return Err(format!(
            "the pool {master} has no admin HTTP: it needs a master on the network"
        ));
    }
    if mooncake_ha::is_locator(master) {
        return master_http::addresses(master, cluster_id);
    }
    let all = master.split([',', ';']).map(str::trim).filter(|one| !one.is_empty());
    let all: Vec<String> = all.map(admin::beside).collect();
    match all.is_empty() {
        true => Err("no address of a master is given".to_owned()),
        false => Ok(all),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(master: Option<&str>, master_http: Option<&str>) -> PoolName {
        let text = |it: Option<&str>| it.map(str::to_owned);
        PoolName { master: text(master), master_http: text(master_http), cluster_id: None }
    }

    #[test]
    fn admin_servers_are_found_beside_the_masters_unless_they_are_named() {
        for (master, master_http, expected) in [
            (Some("a:1"), None, &["a:9003"][..]),
            (Some("a:1, b:2;[::1]:3"), None, &["a:9003", "b:9003", "[::1]:9003"]),
            (Some("a:1"), Some("b:7"), &["b:7"]),
            (Some("local:///dev/shm/pool"), Some("b"), &["b:9003"]),
        ] {
            let found = named(master, master_http).admin_addresses();
            assert_eq!(
                found.as_deref(),
                Ok(&expected.iter().map(ToString::to_string).collect::<Vec<_>>()[..])
            );
        }
        for (master, reason) in [
            (" , ", "no address of a master"),
            ("local:///dev/shm/pool", "has no admin HTTP"),
            ("etcd://", "it names no endpoint"),
        ] {
            let error = named(Some(master), None).admin_addresses().expect_err(master);
            assert!(error.contains(reason), "{master}: {error}");
        }
    }
}
