use std::time::Duration;

/// How much of a server its clients can take up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most connections served at a time. For one more, the address with the most loses its oldest, one without a
    /// request if there is such.
    pub connections: usize,
    /// Longest time from the start of a connection, or from its last answer, until the next request's head is
    /// complete.
    pub head: Duration,
    /// Most bytes of a request's head; at least 8192.
    pub head_bytes: usize,
    /// How long a handler waits for the body of a request.
    pub body: Duration,
    /// Most bytes of a body that a handler reads.
    pub body_bytes: usize,
    /// How long a client may acknowledge nothing before its connection is closed.
    pub stall: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 256,
            head: Duration::from_secs(10),
            // The longest request target is 64 KiB.
            head_bytes: 128 << 10,
            body: Duration::from_secs(10),
            body_bytes: 64 << 10,
            stall: Duration::from_secs(30),
        }
    }
}
