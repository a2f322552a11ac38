//! What has come to disks, or did not, and is yet to be looked at.

use mooncake_types::{Tick, Version};

use crate::tasks::Ending;

/// What has come to disks, or did not.
#[derive(Debug, Default)]
pub(crate) struct Offloads {
    /// Objects whose sinking has ended, and how: what that means to their memory is [settled](crate::Meta::settle_sunk) soon.
    pub(super) sunk: Vec<(u32, Version, Ending)>,
    /// Objects that have got a copy after they were put: they may be to get another one elsewhere.
    pub(super) offloaded: Vec<(u32, Version)>,
    /// Since the last notice.
    pub(super) tally: Tally,
    /// No notice before this moment; absent if there is nothing to say.
    pub(super) notice_at: Option<Tick>,
}

/// What became of victims.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) deferred: u64,
    pub(super) forced: u64,
    pub(super) failed: u64,
}

impl Offloads {
    /// Whether no copy has ended of which more is to be done.
    pub(super) fn is_settled(&self) -> bool {
        self.sunk.is_empty() && self.offloaded.is_empty()
    }
}
