//! Hosts and ports as configurations write them: `host:port`, with brackets around IPv6 literals.

use std::net::{IpAddr, Ipv6Addr};

/// Splits `host`, `host:port`, `[v6]`, `[v6]:port` or a bare IPv6 literal into the host and the port, if there is one.
/// The host comes without brackets and may be empty.
///
/// # Errors
/// The fault of the text, as a clause that follows "it is not host:port".
pub fn split(text: &str) -> Result<(&str, Option<u16>), &'static str> {
    if text.chars().any(|letter| letter.is_whitespace() || matches!(letter, '/' | ',')) {
        return Err("it must be host:port, without spaces, slashes or a scheme");
    }
    if let Some(rest) = text.strip_prefix('[') {
        let (host, after) = rest.split_once(']').ok_or("a bracket is not closed")?;
        host.parse::<Ipv6Addr>().map_err(|_| "what stands in brackets is not an IPv6 address")?;
        return match after.strip_prefix(':') {
            Some(port) => Ok((host, Some(parse_port(port)?))),
            None if after.is_empty() => Ok((host, None)),
            None => Err("a colon and a port must follow the bracket"),
        };
    }
    // Without brackets, more than one colon can only be an IPv6 literal without a port.
    if text.matches(':').count() > 1 {
        let wrong = |_| "an IPv6 address with a port needs brackets around the address";
        return text.parse::<Ipv6Addr>().map(|_| (text, None)).map_err(wrong);
    }
    match text.split_once(':') {
        Some((host, port)) => Ok((host, Some(parse_port(port)?))),
        None => Ok((text, None)),
    }
}

fn parse_port(text: &str) -> Result<u16, &'static str> {
    match text.parse() {
        Ok(port) if port > 0 => Ok(port),
        _ => Err("the port must be a number from 1 to 65535"),
    }
}

/// `host:port`, with brackets around an IPv6 literal.
#[must_use]
pub fn join(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Whether the host stands for every address of its machine, like `0.0.0.0`.
#[must_use]
pub fn is_unspecified(host: &str) -> bool {
    host.is_empty() || host.parse::<IpAddr>().is_ok_and(|address| address.is_unspecified())
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
            assert_eq!(split(text), Ok((host, port)), "{text}");
        }
        for text in [
            "a:b",
            "a:0",
            "a:65536",
            "a:",
            "a:1:2",
            "[::1",
            "[::1]5",
            "[x]:1",
            "::1:x:5",
            "a b",
            "http://a:1",
            "a,b",
        ] {
            assert!(split(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_ipv6_literal_gets_brackets() {
        assert_eq!([join("::1", 2), join("a", 1)], ["[::1]:2", "a:1"]);
    }

    #[test]
    fn every_address_has_several_spellings() {
        let all = ["", "0.0.0.0", "::"].map(is_unspecified);
        let one = ["localhost", "127.0.0.1", "::1"].map(is_unspecified);
        assert_eq!((all, one), ([true; 3], [false; 3]));
    }
}
