use std::time::Duration;

use super::process;

/// Whose packs they are, and when they are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacksConfig {
    /// A pack takes no more records from this length on, in bytes.
    pub pack_bytes: u64,
    /// It is stored at the latest this long after its first record came.
    pub gather: Duration,
    /// How long the owner serves after it stored an entry of the journal. The same for all processes.
    pub lease: Duration,
    /// How long a process sees no entry of the owner before it takes the prefix over: longer than the lease, since clocks of two
    /// hosts need not run equally fast.
    pub silence: Duration,
    /// After a failure to store an entry nothing is tried for so long: callers hear of it at once.
    pub pause: Duration,
    /// The longest record, with its header, in bytes.
    pub longest_record: u64,
    /// A number that nobody can guess: no two processes have the same.
    pub seed: u64,
    /// What the host is called: a process that starts on it waits for an owner that was there to be gone for sure.
    pub host: String,
}

impl PacksConfig {
    /// For a process of this host that stores records as they come.
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
        }
    }
}
