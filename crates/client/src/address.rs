use std::fmt;

use mooncake_types::host_port::{join, split};

use crate::open_error::OpenError;

/// A host and a port, as written in a configuration; IPv6 literals stand in brackets there and without them here.
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

/// Where the master is, as written in a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MasterAddress {
    /// One of these: `host:port`, with commas or semicolons between several.
    Listed(Vec<HostPort>),
    /// Wherever this coordinator says: `etcd://`, `redis://`, `k8s://` or `file://`.
    Elected(String),
}

impl MasterAddress {
    /// Reads an address.
    ///
    /// # Errors
    /// What is wrong with one of a list. What follows a scheme is not looked at.
    pub(crate) fn parse(text: &str) -> Result<MasterAddress, OpenError> {
        match mooncake_ha::is_locator(text.trim()) {
            true => Ok(MasterAddress::Elected(text.trim().to_owned())),
            false => parse_list(text).map(MasterAddress::Listed),
        }
    }
}

fn parse_list(text: &str) -> Result<Vec<HostPort>, OpenError> {
    let error = |reason| OpenError::Address { what: "the master", text: text.to_owned(), reason };
    text.split([',', ';'])
        .map(|one| {
            let (host, port) = split(one.trim()).map_err(error)?;
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
        for text in ["a:1, [::1]:2", "a:1;[::1]:2"] {
            assert_eq!(MasterAddress::parse(text), Ok(both.clone()));
        }
        assert_eq!(master("::1", 2).to_string(), "[::1]:2");
        for text in ["", "a", "a:1,", ":1", "http://a:1", "a:1;;b:2"] {
            assert!(MasterAddress::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_scheme_names_who_knows_the_leader() {
        for text in ["etcd://a:1;b:2", "redis://a", "k8s://space/lease", "file:///run/mooncake"] {
            assert_eq!(MasterAddress::parse(text), Ok(MasterAddress::Elected(text.to_owned())));
        }
    }
}
