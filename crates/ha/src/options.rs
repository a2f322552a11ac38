use std::time::Duration;

use mooncake_types::limits;

use crate::{AddressError, KubernetesAccess};

/// Length of a lease if none is given.
pub const DEFAULT_TTL: Duration = Duration::from_secs(5);

/// How long a leader may be resumed after its lease, if nothing else is given.
pub const DEFAULT_SUSPENSION: Duration = Duration::from_secs(35);

const SHORTEST_TTL: Duration = Duration::from_secs(1);
const LONGEST_TTL: Duration = Duration::from_secs(3600);

/// Options that all candidates and clients of a cluster share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Name of the cluster: letters, digits, `.`, `_` and `-`, at most 128 of them.
    pub cluster_id: String,
    /// How long a lease lasts without a renewal, 1 s to 1 h. Servers that count whole seconds round it up.
    pub ttl: Duration,
    /// How long after its lease a leader may wait for the coordinator. It goes on if no other master has led
    /// meanwhile. Zero: not at all.
    pub suspension: Duration,
    /// How to reach the API server; needed for `k8s://` only.
    pub kubernetes: Option<KubernetesAccess>,
}

impl Options {
    /// The options of a cluster of this name, with a lease of five seconds.
    #[must_use]
    pub fn new(cluster_id: &str) -> Self {
        let (ttl, suspension) = (DEFAULT_TTL, DEFAULT_SUSPENSION);
        Self { cluster_id: cluster_id.to_owned(), ttl, suspension, kubernetes: None }
    }

    pub(crate) fn check(&self) -> Result<(), AddressError> {
        check_cluster_id(&self.cluster_id)?;
        match (SHORTEST_TTL..=LONGEST_TTL).contains(&self.ttl) {
            true => Ok(()),
            false => Err(AddressError::Ttl { ttl_ms: self.ttl.as_millis() }),
        }
    }

    /// How long one request may take. A leader that renews at the first quarter of its lease has time for two
    /// requests: enough to reach the second member of a cluster before the lease ends.
    pub(crate) fn request_timeout(&self) -> Duration {
        self.ttl / 4
    }

    /// The lease in whole seconds, rounded up.
    pub(crate) fn ttl_seconds(&self) -> u64 {
        self.ttl.as_secs() + u64::from(self.ttl.subsec_nanos() > 0)
    }

    /// The pause between two questions for the leader.
    pub(crate) fn poll_every(&self) -> Duration {
        (self.ttl / 20).clamp(Duration::from_millis(20), Duration::from_millis(200))
    }
}

/// Refuses a name that could leave its folder or its part of the keys.
pub(crate) fn check_cluster_id(cluster_id: &str) -> Result<(), AddressError> {
    const LONGEST: usize = 128;
    const { assert!(LONGEST <= limits::MAX_NAME_BYTES) };
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    let reason = match cluster_id {
        "" => "it is empty",
        "." | ".." => "it names a folder",
        long if long.len() > LONGEST => "it is longer than 128 bytes",
        odd if !odd.chars().all(is_plain) => "only letters, digits, '.', '_' and '-' go",
        _ => return Ok(()),
    };
    Err(AddressError::ClusterId { cluster_id: cluster_id.to_owned(), reason: reason.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_id_stays_in_its_folder() {
        for good in ["mooncake_cluster", "a", "A-1.b_2", "..."] {
            assert_eq!(check_cluster_id(good), Ok(()), "{good}");
        }
        for bad in ["", ".", "..", "a/b", "a b", "a\n", "ä", "{a}", &"a".repeat(129)] {
            assert!(check_cluster_id(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_lease_lasts_a_second_to_an_hour() {
        for (ttl_ms, good) in
            [(999, false), (1000, true), (5000, true), (3_600_000, true), (3_600_001, false)]
        {
            let options = Options { ttl: Duration::from_millis(ttl_ms), ..Options::new("a") };
            let expected =
                if good { Ok(()) } else { Err(AddressError::Ttl { ttl_ms: ttl_ms.into() }) };
            assert_eq!(options.check(), expected);
        }
    }

    #[test]
    fn seconds_are_rounded_up() {
        let seconds = [1000, 1001, 4999, 5000].map(|ms| {
            Options { ttl: Duration::from_millis(ms), ..Options::new("a") }.ttl_seconds()
        });
        assert_eq!(seconds, [1, 2, 5, 5]);
    }
}
