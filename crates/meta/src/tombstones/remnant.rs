//! Checks whether nodes have dropped the entries that the master removed by itself. Nodes fetch these tombstones with
//! their heartbeats.

use mooncake_types::{Tick, Version};

use super::EntryId;
use crate::Meta;

/// Whether nodes still hold entries of the removed versions up to a given one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remnant {
    /// They hold none: no later leader finds any of them.
    None,
    /// A node may still hold some. The next check begins at this cursor, after a pause if this check began there too.
    From(RemnantCursor),
}

/// Where a check begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemnantCursor {
    slot: u32,
    offset: u64,
}

impl Meta {
    /// The newest version that was granted so far.
    #[must_use]
    pub fn newest_version(&self) -> Version {
        self.term.newest_grant()
    }

    /// Checks up to `limit` tombstones for versions up to `newest`. Marks segments of nodes out of sight behind,
    /// rather than wait for these nodes.
    pub fn look_for_remnants(
        &mut self,
        now: Tick,
        newest: Version,
        (from, limit): (RemnantCursor, usize),
    ) -> Remnant {
        self.advance(now);
        // Leased versions get ordinary tombstones when their leases are over.
        if self.tombstones.leased.oldest().is_some_and(|version| version <= newest) {
            return Remnant::From(from);
        }
        let RemnantCursor { slot, offset } = from;
        let mut page: Vec<(u32, EntryId)> =
            self.tombstones.from(slot, offset).take(limit + 1).collect();
        let next = if page.len() > limit { page.pop() } else { None };
        for (slot, place) in page {
            if place.1 <= newest && self.must_be_dropped(slot, place).is_some() {
                return Remnant::From(RemnantCursor { slot, offset: place.0 });
            }
        }
        next.map_or(Remnant::None, |(slot, (offset, _))| {
            Remnant::From(RemnantCursor { slot, offset })
        })
    }
}
