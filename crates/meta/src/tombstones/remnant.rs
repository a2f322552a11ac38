//! Whether the nodes have dropped what the master removed by itself. They fetch these tombstones with their heartbeats.

use mooncake_types::{Tick, Version};

use super::EntryId;
use crate::Meta;

/// Whether nodes still hold something of the removed versions up to a given one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remnant {
    /// Nothing: no later leader finds any of it.
    None,
    /// A node may still hold some. The next look begins here; if this one began here too, after a pause.
    From(RemnantCursor),
}

/// Where a look begins.
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

    /// Looks at up to `limit` entries for what is left of versions up to `newest`. Nodes out of sight are marked behind
    /// rather than waited for.
    pub fn look_for_remnants(
        &mut self,
        now: Tick,
        newest: Version,
        (from, limit): (RemnantCursor, usize),
    ) -> Remnant {
        self.advance(now);
        // What readers may have routes to has tombstones when their leases are over.
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
