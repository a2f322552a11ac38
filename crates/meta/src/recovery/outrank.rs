//! Outranking: a node that has obeyed a later leader refuses the grants and drops of this leader. When this node
//! mounts a segment, this leader takes an even higher epoch.

use std::collections::BTreeSet;

use mooncake_types::{Epoch, MountSegment};

use crate::Meta;
use crate::timer::Timer;
use crate::tombstones::EntryId;

/// Time between two checks whether the puts that were under way have ended.
const PUTS_MS: u64 = 1_000;

impl Meta {
    /// Whether another leader can have had this epoch by now. The epochs that this leader took to outrank others do
    /// not count as known. Otherwise a peer could raise the epoch step by step.
    #[must_use]
    pub fn is_credible_epoch(&self, seen: Epoch) -> bool {
        let known = self.term.began_under().max(self.config.wall_epoch);
        let known = Epoch(known.0.saturating_add(self.now.since_ms(self.term.began_at())));
        Epoch(seen.0.saturating_add(1)).is_credible(known)
    }

    /// The new epoch that this leader takes when it handles a mount, if it takes one. The shell records it first,
    /// since the next leader must have a higher epoch.
    #[must_use]
    pub fn epoch_after(&self, mount: &MountSegment<'_>) -> Option<Epoch> {
        let is_outranked = mount.seen_epoch > self.term.epoch() && self.check_mount(mount).is_ok();
        is_outranked.then(|| Epoch(mount.seen_epoch.0 + 1))
    }

    /// Takes a higher epoch than `seen`.
    pub(crate) fn outrank(&mut self, seen: Epoch) {
        if seen <= self.term.epoch() {
            return;
        }
        self.term.rise(Epoch(seen.0 + 1));
        let beneath = self.places_beneath_puts();
        self.tombstones.name_again(self.term.newest_grant(), beneath);
        self.await_puts();
    }

    /// Checks again which tombstones lie in ranges of puts that were under way when this leader outranked another.
    pub(crate) fn name_what_is_free(&mut self) {
        let beneath = self.places_beneath_puts();
        self.tombstones.retain_beneath(&beneath);
        self.await_puts();
    }

    fn await_puts(&mut self) {
        if self.tombstones.has_some_beneath() {
            self.timers.insert((self.now.after_ms(PUTS_MS), Timer::NameAgain));
        }
    }

    /// The tombstones that lie in ranges of running puts and copies.
    fn places_beneath_puts(&self) -> BTreeSet<(u32, EntryId)> {
        let mut beneath = BTreeSet::new();
        for object in self.running_puts().chain(self.tasks.copies()) {
            for (_, range) in self.ranges_of(object) {
                let offset = self.offset_of(range);
                let places = self.tombstones.overlapping(range.segment, offset, range.len);
                beneath.extend(places.into_iter().map(|place| (range.segment, place)));
            }
        }
        beneath
    }
}
