//! Offloads that have ended, until the leader settles them.

use mooncake_types::{Tick, Version};

use crate::tasks::Ending;

/// Offloads that have ended, and the counts for the next notice.
#[derive(Debug, Default)]
pub(crate) struct Offloads {
    /// Objects whose sinking has ended, and how it ended. [`settle_sunk`](crate::Meta::settle_sunk) decides what
    /// happens to their memory.
    pub(super) sunk: Vec<(u32, Version, Ending)>,
    /// Objects that were offloaded after a put: they may need a copy on a further medium.
    pub(super) offloaded: Vec<(u32, Version)>,
    /// The counts since the last notice.
    pub(super) tally: Tally,
    /// When the next notice is due. `None` if there is nothing to say.
    pub(super) notice_at: Option<Tick>,
}

/// How many victims of eviction were deferred until a copy is made, evicted without a copy, or failed to be copied.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) deferred: u64,
    pub(super) forced: u64,
    pub(super) failed: u64,
}

impl Offloads {
    /// Whether all offloads that have ended are settled.
    pub(super) fn is_settled(&self) -> bool {
        self.sunk.is_empty() && self.offloaded.is_empty()
    }
}
