use std::time::Duration;

/// What strangers may take of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections that are served at a time; more wait until one ends.
    pub connections: usize,
    /// How long a connection may take from one answer, or its start, to the end of the next request's head.
    pub head: Duration,
    /// Most bytes of a request's head. At least 8192.
    pub head_bytes: usize,
    /// How long a body may take that a handler waits for.
    pub body: Duration,
    /// Most bytes of a body that a handler reads.
    pub body_bytes: usize,
    /// How long a reader may leave its answer lying.
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
