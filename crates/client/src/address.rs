use std::fmt;

use mooncake_connection::LOCAL_MARK;
use mooncake_types::host_port::{join, split};

use crate::open_error::OpenError;

/// A host and a port from a configuration. IPv6 literals have brackets there, and none here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostPort {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", join(&self.host, self.port))
    }
}

/// The address of one master.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MasterEndpoint {
    /// On the network.
    Port(HostPort),
    /// At a local socket of this host, by its name.
    Local(String),
}

impl MasterEndpoint {
    /// Reads the address that a leader reports. It must be a local socket if `only_this_host`, and `host:port`
    /// otherwise.
    ///
    /// # Errors
    /// Why the address cannot be used.
    pub(crate) fn of_leader(address: &str, only_this_host: bool) -> Result<Self, String> {
        match (address.strip_prefix(LOCAL_MARK), only_this_host) {
            (Some(name), true) => Ok(Self::Local(name.to_owned())),
            (Some(_), false) => Err(format!(
                "a process of a pool without a master leads, which others join by {HOST_POOL}..."
            )),
            (None, true) => Err(format!("the master at {address} leads, which is on the network")),
            (None, false) => match split(address) {
                Ok((host, Some(port))) if !host.is_empty() => {
                    Ok(Self::Port(HostPort { host: host.to_owned(), port }))
                }
                _ => Err(format!("the leader's address {address:?} is not host:port")),
            },
        }
    }
}

impl fmt::Display for MasterEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Port(port) => port.fmt(f),
            Self::Local(name) => write!(f, "{LOCAL_MARK}{name}"),
        }
    }
}

/// Written instead of an address where each process runs its part of the master.
const HOST_POOL: &str = "local://";

/// The address of the master, as written in a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MasterAddress {
    /// `host:port`, or several of these with commas or semicolons between them.
    Listed(Vec<HostPort>),
    /// At a local socket of this host: its name, after [`LOCAL_MARK`].
    Local(String),
    /// The leader that this coordinator names: `etcd://`, `redis://`, `k8s://` or `file://`.
    Elected(String),
}

impl MasterAddress {
    /// Reads an address.
    ///
    /// # Errors
    /// Why an address in a list is invalid. The text after a scheme is not checked.
    pub(crate) fn parse(text: &str) -> Result<MasterAddress, OpenError> {
        let text = text.trim();
        if let Some(name) = text.strip_prefix(LOCAL_MARK) {
            return Ok(MasterAddress::Local(name.to_owned()));
        }
        match mooncake_ha::is_locator(text) {
            true => Ok(MasterAddress::Elected(text.to_owned())),
            false => parse_list(text).map(MasterAddress::Listed),
        }
    }
}

fn parse_list(text: &str) -> Result<Vec<HostPort>, OpenError> {
    let error = |reason| OpenError::Address { what: "the master", text: text.to_owned(), reason };
    if text.starts_with(HOST_POOL) {
        return Err(error("this program joins no pool without a master"));
    }
    if text.is_empty() {
        return Err(error("it is empty; a store that is to need no master says local://"));
    }
    text.split([',', ';'])
        .map(|one| {
            // As pasted from the address line of a browser, or from another flag.
            let one = one.trim();
            let one = one.strip_prefix("http://").unwrap_or(one).trim_end_matches('/');
            let (host, port) = split(one).map_err(error)?;
            let port = port.ok_or_else(|| error("it names no port"))?;
            if host.is_empty() {
                return Err(error("it names no host"));
            }
            Ok(HostPort { host: host.to_owned(), port })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masters_are_a_list_and_each_has_a_port() {
        let master = |host: &str, port| HostPort { host: host.to_owned(), port };
        let both = MasterAddress::Listed(vec![master("a", 1), master("::1", 2)]);
        for text in ["a:1, [::1]:2", "a:1;[::1]:2", "http://a:1/,http://[::1]:2"] {
            assert_eq!(MasterAddress::parse(text), Ok(both.clone()));
        }
        assert_eq!(master("::1", 2).to_string(), "[::1]:2");
        for text in ["", "a", "a:1,", ":1", "https://a:1", "a:1;;b:2"] {
            assert!(MasterAddress::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn leaders_are_on_the_network_or_on_this_host_as_is_wanted() {
        let port = MasterEndpoint::Port(HostPort { host: "a".to_owned(), port: 1 });
        let local = MasterEndpoint::Local("m".to_owned());
        assert_eq!(local.to_string(), "@m");
        for (address, only_this_host, expected) in [
            ("a:1", false, Ok(port)),
            ("@m", true, Ok(local)),
            ("a:1", true, Err("the master at a:1 leads, which is on the network".to_owned())),
            ("a", false, Err("the leader's address \"a\" is not host:port".to_owned())),
        ] {
            assert_eq!(MasterEndpoint::of_leader(address, only_this_host), expected, "{address}");
        }
        let refused = MasterEndpoint::of_leader("@m", false).expect_err("it has no port");
        assert!(refused.contains("local://"), "{refused}");
    }

    #[test]
    fn a_scheme_names_who_knows_the_leader() {
        for text in ["etcd://a:1;b:2", "redis://a", "k8s://space/lease", "file:///run/mooncake"] {
            assert_eq!(MasterAddress::parse(text), Ok(MasterAddress::Elected(text.to_owned())));
        }
    }
}
