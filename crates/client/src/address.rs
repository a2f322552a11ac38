use std::fmt;

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

/// `host:port`, with brackets around an IPv6 literal.
pub(crate) fn join(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// The host, and the port if there is one, of `host`, `host:port`, `[v6]`, `[v6]:port` or a bare IPv6 literal.
pub(crate) fn split(text: &str) -> Result<(String, Option<u16>), &'static str> {
    if text.chars().any(|letter| letter.is_whitespace() || letter == '/' || letter == ',') {
        return Err("it must be host:port, without spaces, slashes or a scheme");
    }
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']').ok_or("a bracket is not closed")?;
            if host.parse::<std::net::Ipv6Addr>().is_err() {
                return Err("what stands in brackets is not an IPv6 address");
            }
            let port = match after.strip_prefix(':') {
                Some(port) => Some(port),
                None if after.is_empty() => None,
                None => return Err("a colon and a port must follow the bracket"),
            };
            (host, port)
        }
        // More than one colon without brackets can only be an IPv6 literal without a port.
        None if text.matches(':').count() > 1 => match text.parse::<std::net::Ipv6Addr>() {
            Ok(_) => (text, None),
            Err(_) => return Err("an IPv6 address with a port needs brackets around the address"),
        },
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let port = port.map(parse_port).transpose()?;
    Ok((host.to_owned(), port))
}

fn parse_port(text: &str) -> Result<u16, &'static str> {
    match text.parse::<u16>() {
        Ok(port) if port > 0 => Ok(port),
        _ => Err("the port must be a number from 1 to 65535"),
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
            Ok(HostPort { host, port })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports_are_told_apart() {
        for (text, host, port) in [
            ("localhost", "localhost", None),
            ("localhost:12345", "localhost", Some(12345)),
            ("", "", None),
            ("10.0.0.1:1", "10.0.0.1", Some(1)),
            ("[::1]:50051", "::1", Some(50051)),
            ("[::1]", "::1", None),
            ("fe80::1", "fe80::1", None),
        ] {
            assert_eq!(split(text), Ok((host.to_owned(), port)), "{text}");
        }
        for text in [
            "a:b",
            "a:0",
            "a:65536",
            "a:",
            "[::1",
            "[::1]5",
            "[x]:1",
            "::1:x:5",
            "a b",
            "http://a:1",
        ] {
            assert!(split(text).is_err(), "{text}");
        }
    }

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
