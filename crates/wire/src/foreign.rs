//! Recognizes peers that speak another protocol.

/// The protocol that a peer speaks, by the first bytes that it sent. The peer is a client of that protocol that
/// connected to the wrong port, or a server to whose port this side connected by mistake.
#[must_use]
pub fn foreign_protocol(first: &[u8]) -> Option<&'static str> {
    const STARTS: [(&[u8], &str); 18] = [
        (b"HTTP/", "HTTP"),
        (b"GET ", "HTTP"),
        (b"POST ", "HTTP"),
        (b"PUT ", "HTTP"),
        (b"HEAD ", "HTTP"),
        (b"DELETE ", "HTTP"),
        (b"OPTIONS ", "HTTP"),
        (b"PATCH ", "HTTP"),
        (b"TRACE ", "HTTP"),
        (b"CONNECT ", "HTTP"),
        (b"PRI * HTTP/2", "gRPC or HTTP/2"),
        // TLS records: a handshake and an alert.
        (b"\x16\x03", "TLS"),
        (b"\x15\x03", "TLS"),
        (b"-ERR", "Redis"),
        (b"-DENIED", "Redis"),
        (b"*1\r\n$", "Redis"),
        (b"*2\r\n$", "Redis"),
        (b"SSH-", "SSH"),
    ];
    // An HTTP/2 server sends a SETTINGS frame first, on stream 0.
    let is_settings = first.len() >= 9 && first[..2] == [0, 0] && first[3..9] == [4, 0, 0, 0, 0, 0];
    let named = STARTS.iter().find(|(start, _)| first.starts_with(start)).map(|(_, name)| *name);
    named.or(is_settings.then_some("gRPC or HTTP/2"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_protocols_are_known_by_their_first_bytes() {
        let cases: [(&[u8], Option<&str>); 11] = [
            (b"GET / HTTP/1.1\r\n", Some("HTTP")),
            (b"HTTP/1.1 400 Bad Request\r\n", Some("HTTP")),
            (b"PRI * HTTP/2.0\r\n\r\n", Some("gRPC or HTTP/2")),
            (b"\x00\x00\x12\x04\x00\x00\x00\x00\x00\x00", Some("gRPC or HTTP/2")),
            (b"\x16\x03\x01\x02\x00\x01", Some("TLS")),
            (b"\x15\x03\x03\x00\x02\x02\x0a", Some("TLS")),
            (b"-ERR Protocol error", Some("Redis")),
            (b"*1\r\n$4\r\nPING\r\n", Some("Redis")),
            (b"SSH-2.0-OpenSSH_9", Some("SSH")),
            (b"KM\x01\x00", None),
            (b"", None),
        ];
        for (first, expected) in cases {
            assert_eq!(foreign_protocol(first), expected, "{first:?}");
        }
    }
}
