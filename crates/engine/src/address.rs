use std::net::{IpAddr, Ipv6Addr};

use crate::OpenError;

/// The host, and the port if there is one, of `host`, `host:port`, `[v6]`, `[v6]:port` or a bare IPv6 literal.
pub(crate) fn split(text: &str) -> Result<(&str, Option<u16>), &'static str> {
    if text.chars().any(|letter| letter.is_whitespace() || matches!(letter, '/' | ',')) {
        return Err("it holds a space, a slash or a comma");
    }
    if let Some(rest) = text.strip_prefix('[') {
        let (host, after) = rest.split_once(']').ok_or("a bracket is not closed")?;
        host.parse::<Ipv6Addr>().map_err(|_| "what stands in brackets is no IPv6 address")?;
        return match after.strip_prefix(':') {
            Some(port) => Ok((host, Some(parse_port(port)?))),
            None if after.is_empty() => Ok((host, None)),
            None => Err("a colon and a port must follow the bracket"),
        };
    }
    if text.parse::<Ipv6Addr>().is_ok() {
        return Ok((text, None));
    }
    match text.split_once(':') {
        Some((host, port)) => Ok((host, Some(parse_port(port)?))),
        None => Ok((text, None)),
    }
}

fn parse_port(text: &str) -> Result<u16, &'static str> {
    match text.parse() {
        Ok(port) if port > 0 => Ok(port),
        _ => Err("the port is no number from 1 to 65535"),
    }
}

/// `host:port`, with brackets around an IPv6 literal.
pub(crate) fn join(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// The host of a `local_hostname`.
pub(crate) fn host_of(text: &str) -> Result<&str, OpenError> {
    let (host, _) = split(text).map_err(|reason| OpenError::Address {
        text: text.to_owned(),
        reason: reason.to_owned(),
    })?;
    Ok(host)
}

/// Whether the host stands for every address of its machine.
pub(crate) fn is_unspecified(host: &str) -> bool {
    host.is_empty() || host.parse::<IpAddr>().is_ok_and(|address| address.is_unspecified())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports_are_told_apart() {
        for (text, host, port) in [
            ("localhost", "localhost", None),
            ("node:12345", "node", Some(12345)),
            ("", "", None),
            ("[::1]:5", "::1", Some(5)),
            ("[::1]", "::1", None),
            ("fe80::1", "fe80::1", None),
        ] {
            assert_eq!(split(text), Ok((host, port)), "{text}");
        }
        for text in
            ["a:b", "a:0", "a:65536", "a:", "[::1", "[::1]5", "[x]:1", "a:1:2", "a b", "http://a:1"]
        {
            assert!(split(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_ipv6_literal_gets_brackets() {
        let joined = [join("::1", 2), join("a", 1)];
        assert_eq!(joined, ["[::1]:2", "a:1"]);
    }
}
