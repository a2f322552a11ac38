use std::fmt;

use mooncake_types::host_port::{join, split};

use crate::OpenError;

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

/// The addresses of the master: `host:port[,host:port]`.
pub(crate) fn parse_masters(text: &str) -> Result<Vec<HostPort>, OpenError> {
    let error = |reason| OpenError::Address { what: "the master", text: text.to_owned(), reason };
    text.split(',')
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
        assert_eq!(parse_masters("a:1, [::1]:2"), Ok(vec![master("a", 1), master("::1", 2)]));
        assert_eq!(master("::1", 2).to_string(), "[::1]:2");
        for text in ["", "a", "a:1,", ":1", "etcd://a:1"] {
            assert!(parse_masters(text).is_err(), "{text}");
        }
    }
}
