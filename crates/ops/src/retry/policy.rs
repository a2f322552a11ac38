use mooncake_types::{Tick, limits};

/// How something that failed is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Most attempts, the first among them.
    attempts: u32,
    /// The first pause and the longest, in milliseconds: each is twice the one before.
    pauses_ms: (u64, u64),
    /// How long after the first failure an attempt may begin, in milliseconds.
    lasts_ms: u64,
}

impl RetryPolicy {
    const UNTIL_THE_DEADLINE: Self =
        Self { attempts: u32::MAX, pauses_ms: (0, 0), lasts_ms: u64::MAX };

    const fn attempts(attempts: u32) -> Self {
        Self { attempts, ..Self::UNTIL_THE_DEADLINE }
    }

    /// A new leader refuses changes until it knows what the nodes hold, for a second at most. A node obeys it once
    /// the node's own heartbeat has reached it.
    pub const NEW_LEADER: Self =
        Self { pauses_ms: (20, 160), lasts_ms: 1_500, ..Self::UNTIL_THE_DEADLINE };

    /// A node did not confirm that it dropped an entry: the master is asked whether that entry can still be there.
    pub(crate) const DROP: Self = Self { pauses_ms: (100, 100), ..Self::UNTIL_THE_DEADLINE };

    /// A node did not drop a version that is older than the one to be read. The object is looked up again: another
    /// master may lead by then, or the master may know that the node is gone.
    pub(crate) const OLDER_VERSION: Self = Self { attempts: 6, ..Self::DROP };

    /// No replica of an object was written: another grant is asked for.
    pub(crate) const PUT: Self = Self::attempts(2);

    /// The master makes room for an object by offloading others, which takes milliseconds.
    pub(crate) const ROOM: Self = Self { pauses_ms: (1, 16), ..Self::UNTIL_THE_DEADLINE };

    /// The pool is full, and the caller would rather wait than be refused: leases last for seconds.
    pub(crate) const FULL_POOL: Self = Self { pauses_ms: (10, 100), ..Self::UNTIL_THE_DEADLINE };

    /// Like [`RetryPolicy::PUT`], when other clients use the ranges, or newer upserts of the key overtook this one.
    /// Each grant names other ranges, and is newer than all before it.
    pub(crate) const CONTENDED_PUT: Self = Self::attempts(8);

    /// The master puts `PutEnd` off until nodes have dropped an older version.
    pub(crate) const PUT_END: Self = Self::attempts(64);

    /// Transfers of one item of a get, however many new places the master names.
    pub(crate) const GET: Self = Self::attempts(2 * limits::MAX_REPLICAS + 2);

    /// Lookups in a row without a transfer between them. The lease of a replaced version may be about to end, and
    /// with it the leases of its successor's readers: the next lookup grants a new one. More lookups mean that leases
    /// are too short to be used.
    pub(crate) const IDLE_LOOKUP: Self = Self { pauses_ms: (1, 4), ..Self::attempts(4) };

    /// The heartbeat has tried every address of the master. A refused connection is cheap, so the pauses are short
    /// and a restarted master is found soon.
    pub const CONNECT: Self = Self { pauses_ms: (50, 200), ..Self::UNTIL_THE_DEADLINE };

    /// The master did not say how far a drain is. If another master leads at all, it does so within this time.
    pub const DRAIN: Self =
        Self { pauses_ms: (50, 50), lasts_ms: 3_000, ..Self::UNTIL_THE_DEADLINE };

    /// Whether another attempt may follow after `failures` failed attempts.
    pub(crate) const fn allows(&self, failures: u32) -> bool {
        failures < self.attempts
    }

    /// The end of a pause that begins at `now`, after `failures` earlier failures.
    pub(crate) fn pause_after(&self, failures: u32, now: Tick) -> Tick {
        let (first, longest) = self.pauses_ms;
        now.after_ms((first << failures.min(16)).min(longest))
    }
}

/// The retries of one operation.
#[derive(Clone, Copy, Debug)]
pub struct Retry {
    policy: RetryPolicy,
    failures: u32,
    until: Option<Tick>,
}

impl Retry {
    /// Nothing has failed yet.
    #[must_use]
    pub const fn new(policy: RetryPolicy) -> Self {
        Self { policy, failures: 0, until: None }
    }

    /// Notes a failure at `now`. Returns when the next attempt begins; `None` if there is none.
    pub fn again_at(&mut self, now: Tick) -> Option<Tick> {
        let until = *self.until.get_or_insert(now.after_ms(self.policy.lasts_ms));
        let at = self.pause_from(now);
        (self.policy.allows(self.failures) && at <= until).then_some(at)
    }

    /// Like [`Retry::again_at`], for operations that are never given up.
    pub fn pause_from(&mut self, now: Tick) -> Tick {
        let at = self.policy.pause_after(self.failures, now);
        self.failures = self.failures.saturating_add(1);
        at
    }

    /// Notes a success at `now`: failures are counted from zero again, and the time limit starts over.
    pub fn reset(&mut self, now: Tick) {
        let until = Some(now.after_ms(self.policy.lasts_ms));
        *self = Self { until, ..Self::new(self.policy) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pauses(retry: &mut Retry, most: usize) -> (Vec<u64>, Tick) {
        let (mut now, mut pauses) = (Tick(100), Vec::new());
        while let Some(at) = retry.again_at(now).filter(|_| pauses.len() < most) {
            pauses.push(at.since_ms(now));
            now = at;
        }
        (pauses, now)
    }

    #[test]
    fn a_new_leader_has_a_second_and_a_half() {
        let (pauses, last) = pauses(&mut Retry::new(RetryPolicy::NEW_LEADER), 100);
        assert_eq!(pauses[..5], [20, 40, 80, 160, 160]);
        assert!((1_600 - 160..=1_600).contains(&last.0), "{last:?}");
    }

    #[test]
    fn pauses_double_and_begin_anew_after_a_success() {
        let mut retry = Retry::new(RetryPolicy::CONNECT);
        assert_eq!(pauses(&mut retry, 5).0, [50, 100, 200, 200, 200]);
        retry.reset(Tick(7));
        assert_eq!(pauses(&mut retry, 1).0, [50]);
    }

    #[test]
    fn attempts_are_counted_with_the_first() {
        let (pauses, _) = pauses(&mut Retry::new(RetryPolicy::OLDER_VERSION), 100);
        assert_eq!(pauses, [100; 5]);
        assert!(RetryPolicy::PUT.allows(1) && !RetryPolicy::PUT.allows(2));
    }
}
