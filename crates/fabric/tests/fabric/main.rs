//! Transfers between processes, over the providers of libfabric that need no NIC.

mod peer;
mod peers;
mod revocation;
mod transfers;

use std::sync::Arc;
use std::time::{Duration, Instant};

use mooncake_fabric::{DeviceOptions, Domain, Initiator, Limits};
use mooncake_memory::{Crc32c, HeldSlice, RawSlice, Region};

/// Providers that are there wherever libfabric is.
pub(crate) const PROVIDERS: [&str; 4] = ["tcp", "shm", "sockets", "udp"];

/// The provider, on the loopback interface.
pub(crate) fn options(provider: &str) -> DeviceOptions {
    let device = (provider != "shm").then(|| "lo".to_owned());
    DeviceOptions { provider: Some(provider.to_owned()), device, ..DeviceOptions::default() }
}

pub(crate) fn open(provider: &str, limits: Limits) -> (Arc<Domain>, Initiator) {
    let domain = Domain::open(&options(provider), limits).unwrap();
    let initiator = Initiator::open(&domain).unwrap();
    (domain, initiator)
}

pub(crate) fn soon() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

/// Local memory, filled by a seed.
pub(crate) fn local(bytes: usize, seed: u64) -> HeldSlice {
    let region = Region::anonymous(bytes as u64).unwrap();
    fill(region.whole(), seed);
    HeldSlice::whole(Arc::new(region))
}

/// Writes bytes that tell the seed and their place.
pub(crate) fn fill(memory: RawSlice<'_>, seed: u64) {
    memory.write_from(&expected(0, memory.len(), seed));
}

/// The bytes that `fill` writes from an offset on.
pub(crate) fn expected(offset: usize, len: usize, seed: u64) -> Vec<u8> {
    let word = |at: usize| {
        (at as u64 ^ seed << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).to_le_bytes()
    };
    let (first, last) = (offset / 8, (offset + len).div_ceil(8));
    let words: Vec<u8> = (first..last).flat_map(word).collect();
    words[offset - 8 * first..][..len].to_vec()
}

pub(crate) fn sum(memory: RawSlice<'_>) -> u32 {
    let mut crc = Crc32c::new();
    crc.update_raw(memory);
    crc.finish()
}
