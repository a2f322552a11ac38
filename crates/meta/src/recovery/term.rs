//! The term of a leader: its epochs, its grants, and the time during which no other master leads.

use mooncake_types::{Epoch, Tick, Version};

/// The term of a leader: see the [module](self).
#[derive(Debug)]
pub(crate) struct Term {
    epoch: Epoch,
    /// Number of versions that this leader granted under all its epochs.
    granted: u64,
    began_under: Epoch,
    began_at: Tick,
    lease_end: Option<Tick>,
}

impl Term {
    pub(crate) fn begin(epoch: Epoch, now: Tick) -> Self {
        Self { epoch, granted: 0, began_under: epoch, began_at: now, lease_end: None }
    }

    /// The epoch of new grants.
    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The epoch in which the term began. Earlier leaders granted the versions of older epochs.
    pub(crate) fn began_under(&self) -> Epoch {
        self.began_under
    }

    pub(super) fn began_at(&self) -> Tick {
        self.began_at
    }

    /// A version older than all that this leader grants, and newer than all of earlier leaders.
    pub(crate) fn first_grant(&self) -> Version {
        Version { epoch: self.began_under, counter: 0 }
    }

    pub(crate) fn next_version(&mut self) -> Version {
        self.granted += 1;
        self.newest_grant()
    }

    /// The last grant. All entries so far were written under it or an older one.
    pub(crate) fn newest_grant(&self) -> Version {
        Version { epoch: self.epoch, counter: self.granted }
    }

    /// New grants get this higher epoch from now on.
    pub(super) fn rise(&mut self, epoch: Epoch) {
        assert!(epoch > self.epoch, "a leader's epochs grow");
        self.epoch = epoch;
    }

    /// The moment before which no other master leads, even if this leader dies now. `None`: another master may lead at
    /// once.
    pub(super) fn lease_end(&self) -> Option<Tick> {
        self.lease_end
    }

    pub(super) fn set_lease_end(&mut self, lease_end: Option<Tick>) {
        self.lease_end = lease_end;
    }
}
