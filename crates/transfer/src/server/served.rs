use std::sync::atomic::{AtomicU64, Ordering};

use super::connection::Origin;

/// Counts what a data server sent to its peers, and what these wrote. Peers that copy out of mapped memory, or read
/// one-sided, send no message, and are not counted.
#[derive(Debug, Default)]
pub struct Served {
    tcp: Count,
    local_socket: Count,
    pinned: Count,
    received: [Count; Arrival::ALL.len()],
    unsealed: AtomicU64,
}

/// How bytes came to a segment of a data server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// In messages by TCP.
    Tcp,
    /// In messages by the local socket.
    LocalSocket,
    /// A peer of this host wrote into the memory of the segment.
    InPlace,
    /// One-sided, over libfabric.
    Fabric,
}

impl Arrival {
    const ALL: [Arrival; 4] =
        [Arrival::Tcp, Arrival::LocalSocket, Arrival::InPlace, Arrival::Fabric];

    /// Its name in metrics.
    const fn name(self) -> &'static str {
        match self {
            Arrival::Tcp => "tcp",
            Arrival::LocalSocket => "local_socket",
            Arrival::InPlace => "in_place",
            Arrival::Fabric => "fabric",
        }
    }
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
        named.map(|(name, count)| count.of_way(name))
    }

    /// What peers wrote, by the way that the bytes took.
    #[must_use]
    pub fn received(&self) -> [ServedWay; 4] {
        Arrival::ALL.map(|arrival| self.received[arrival as usize].of_way(arrival.name()))
    }

    /// How many ranges peers asked for that the master has not given to them.
    #[must_use]
    pub fn unsealed(&self) -> u64 {
        self.unsealed.load(Ordering::Relaxed)
    }

    pub(super) fn on_unsealed(&self) {
        self.unsealed.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn on_sent(&self, origin: Origin, ranges: u64, bytes: u64) {
        match origin {
            Origin::Tcp => self.tcp.add(ranges, bytes),
            Origin::Local => self.local_socket.add(ranges, bytes),
        }
    }

    /// Counts ranges of these lengths that are complete.
    pub(super) fn on_received(&self, arrival: Arrival, lens: impl Iterator<Item = u64>) {
        let (ranges, bytes) = lens.fold((0, 0), |(ranges, bytes), len| (ranges + 1, bytes + len));
        self.received[arrival as usize].add(ranges, bytes);
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

    fn of_way(&self, name: &'static str) -> ServedWay {
        let (ranges, bytes) = (&self.ranges, &self.bytes);
        ServedWay {
            name,
            ranges: ranges.load(Ordering::Relaxed),
            bytes: bytes.load(Ordering::Relaxed),
        }
    }
}
