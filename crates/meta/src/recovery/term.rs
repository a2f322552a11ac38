//! The term of a leader: the epochs under which it grants, its grants, and how long nobody else leads.

use mooncake_types::{Epoch, Tick, Version};

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Term {
    epoch: Epoch,
    /// Versions that were granted.
    granted: u64,
    began_under: Epoch,
    began_at: Tick,
    lease_end: Option<Tick>,
}

impl Term {
    pub(crate) fn begin(epoch: Epoch, now: Tick) -> Self {
        Self { epoch, granted: 0, began_under: epoch, began_at: now, lease_end: None }
    }

    /// The epoch under which grants are given.
    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The epoch of its beginning: versions of older ones were granted by earlier leaders.
    pub(crate) fn began_under(&self) -> Epoch {
        self.began_under
    }

    pub(super) fn began_at(&self) -> Tick {
        self.began_at
    }

    pub(crate) fn next_version(&mut self) -> Version {
        self.granted += 1;
        self.newest_grant()
    }

    /// The last grant. Whatever was written so far was written under it or an older one.
    pub(crate) fn newest_grant(&self) -> Version {
        Version { epoch: self.epoch, counter: self.granted }
    }

    /// Grants are given under a higher epoch from now on.
    pub(super) fn rise(&mut self, epoch: Epoch) {
        assert!(epoch > self.epoch, "a leader's epochs grow");
        self.epoch = epoch;
    }

    /// No other master leads before this moment, even if this leader dies now; nothing if others would follow it at once.
    pub(super) fn lease_end(&self) -> Option<Tick> {
        self.lease_end
    }

    pub(super) fn set_lease_end(&mut self, lease_end: Option<Tick>) {
        self.lease_end = lease_end;
    }
}
