use std::time::Duration;

use super::lease_clock::LeaseClock;
use super::process;

/// The owner of the packs, and when it stores them.
#[derive(Clone, Debug)]
pub struct PacksConfig {
    /// A pack of this length, in bytes, takes no more records.
    pub pack_bytes: u64,
    /// Longest time that a pack gathers records after its first one.
    pub gather: Duration,
    /// How long the owner may serve after it began to store its last journal entry. The same for all processes.
    pub lease: Duration,
    /// How long a process must see no entry of the owner before it takes the prefix over. It exceeds the lease, since
    /// clocks of two hosts need not run equally fast.
    pub silence: Duration,
    /// After a failure to store an entry the journal refuses changes for this long, so that callers do not wait in
    /// vain.
    pub pause: Duration,
    /// The longest record, with its header, in bytes.
    pub longest_record: u64,
    /// A random secret that identifies this process. No two processes share it.
    pub seed: u64,
    /// The host's name. A process waits for `silence` only if the last owner ran on the same host, or was silent for
    /// very long.
    pub host: String,
    pub(crate) clock: LeaseClock,
}

impl PacksConfig {
    /// The usual configuration of a process on this host.
    #[must_use]
    pub fn usual(longest_record: u64, seed: u64) -> PacksConfig {
        PacksConfig {
            pack_bytes: 16 << 20,
            gather: Duration::from_millis(100),
            lease: Duration::from_secs(15),
            silence: Duration::from_secs(20),
            pause: Duration::from_secs(1),
            longest_record,
            seed,
            host: process::host(),
            clock: LeaseClock::default(),
        }
    }
}
