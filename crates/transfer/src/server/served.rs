use std::sync::atomic::{AtomicU64, Ordering};

use super::connection::Origin;

/// Counts what a data server sent to its peers. Processes of its host that copy out of mapped memory send no message,
/// and are not counted.
#[derive(Debug, Default)]
pub struct Served {
    tcp: Count,
    local_socket: Count,
    pinned: Count,
}

#[derive(Debug, Default)]
struct Count {
    ranges: AtomicU64,
    bytes: AtomicU64,
}

/// Ranges, and their bytes, that went one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServedWay {
    /// Its name in metrics.
    pub name: &'static str,
    /// How many ranges.
    pub ranges: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Served {
    /// All ways: bytes sent by TCP and by the local socket, and ranges that peers view in place.
    #[must_use]
    pub fn ways(&self) -> [ServedWay; 3] {
        let named =
            [("tcp", &self.tcp), ("local_socket", &self.local_socket), ("in_place", &self.pinned)];
        named.map(|(name, count)| ServedWay {
            name,
            ranges: count.ranges.load(Ordering::Relaxed),
            bytes: count.bytes.load(Ordering::Relaxed),
        })
    }

    pub(super) fn on_sent(&self, origin: Origin, ranges: u64, bytes: u64) {
        match origin {
            Origin::Tcp => self.tcp.add(ranges, bytes),
            Origin::Local => self.local_socket.add(ranges, bytes),
        }
    }

    pub(super) fn on_pinned(&self, bytes: u64) {
        self.pinned.add(1, bytes);
    }
}

impl Count {
    fn add(&self, ranges: u64, bytes: u64) {
        self.ranges.fetch_add(ranges, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}
