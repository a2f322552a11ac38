//! Replay: a new leader takes up the shadows that it collected as a standby.
//!
//! When a member with a shadow mounts, the leader asks its node only for the changes since. The node obeys this leader
//! by then, so no older write can begin there. With the last page of changes the shadow equals the whole inventory.
//! The leader takes it up like an inventory, a page at a time, between requests. Until then it gives out no routes and
//! no grants on the segment.

use std::collections::BTreeMap;

use mooncake_types::mutation::{Rule, is_broken};
use mooncake_types::{
    ChangesPage, ClientId, ErrorCode, InventoryPage, MountOutcome, RangeDrop, SegmentId,
};

use super::entry::ImplausibleReport;
use super::shadow::Shadow;
use super::shadows::Shadows;
use crate::Meta;
use crate::segments::Closed;

impl Meta {
    /// Takes the shadows that this master collected as a standby. The shell must call this before anything else.
    pub fn remember(&mut self, mut shadows: BTreeMap<SegmentId, Shadow>) {
        shadows.retain(|_, shadow| shadow.since().is_some());
        if self.recovery.phase.may_report() {
            self.index.reserve(&self.objects, shadows.values().map(Shadow::entries).sum());
            self.recovery.shadows.known = shadows;
        }
    }

    /// What a recovering segment must report.
    pub(crate) fn wanted(&mut self, slot: u32) -> MountOutcome {
        let segment = &self.segments[slot];
        let Shadows { known, replayed } = &mut self.recovery.shadows;
        if replayed.contains(&segment.id) {
            return MountOutcome::Ready;
        }
        let shadow = known.get(&segment.id);
        let shadow = shadow.filter(|it| it.len_bytes() == segment.allocator.capacity());
        match shadow.and_then(Shadow::since) {
            Some(_) if is_broken(Rule::ShadowsAreConfirmed) => {
                replayed.insert(segment.id);
                MountOutcome::Ready
            }
            Some(since) => MountOutcome::WantsChanges { since },
            None => MountOutcome::WantsInventory,
        }
    }

    /// Another process has taken over the memory. If a part of the shadow is taken up already, the rest is useless.
    pub(crate) fn stop_replay(&mut self, slot: u32) {
        let id = self.segments[slot].id;
        if self.recovery.shadows.replayed.contains(&id) {
            self.recovery.shadows.forget(id);
        }
    }

    pub(crate) fn report_changes(
        &mut self,
        from: ClientId,
        page: &ChangesPage<'_>,
    ) -> Result<(), ErrorCode> {
        let slot = self.segments.find(page.segment).ok_or(ErrorCode::SegmentNotFound)?;
        let segment = &self.segments[slot];
        if segment.client != from {
            return Err(ErrorCode::IllegalClient);
        }
        let is_awaited = segment.recovering.is_some() && !segment.is(Closed::Struck);
        let Shadows { known, replayed } = &mut self.recovery.shadows;
        let shadow = known.get_mut(&page.segment).filter(|_| !replayed.contains(&page.segment));
        let shadow = shadow.filter(|_| is_awaited).ok_or(ErrorCode::UnavailableInCurrentStatus)?;
        if page.page == 0 {
            shadow.next_page = 0;
        }
        let is_next = page.page == shadow.next_page;
        let taken =
            if is_next { shadow.change(&page.entries, &page.gone) } else { Err(ImplausibleReport) };
        if let Err(ImplausibleReport) = taken {
            self.recovery.shadows.forget(page.segment);
            self.strike(slot);
            return Err(ErrorCode::InvalidParams);
        }
        shadow.next_page = shadow.next_page.saturating_add(1);
        if page.last {
            replayed.insert(page.segment);
            self.replay();
        }
        Ok(())
    }

    /// Takes up one page of a shadow.
    pub(crate) fn replay(&mut self) {
        let Some(&id) = self.recovery.shadows.replayed.first() else { return };
        let slot = self.segments.find(id).filter(|&slot| !self.segments[slot].is(Closed::Struck));
        let progress = slot.and_then(|slot| self.segments[slot].recovering);
        let shadow = self.recovery.shadows.known.get_mut(&id);
        let (Some(slot), Some(progress), Some(shadow)) = (slot, progress, shadow) else {
            return self.recovery.shadows.forget(id);
        };
        let entries = shadow.take_page();
        let last = shadow.entries() == 0;
        let page = InventoryPage {
            segment: id,
            run: self.segments[slot].run,
            page: progress.next_page,
            last,
            entries: entries.iter().map(|(offset, kept)| kept.entry(*offset)).collect(),
        };
        if last {
            self.recovery.shadows.forget(id);
        }
        if let Err(ImplausibleReport) = self.take_page(slot, &page) {
            self.recovery.shadows.forget(id);
            self.strike(slot);
        }
    }

    /// Nodes have dropped these entries: removes them from the shadows.
    pub(crate) fn forget_dropped(&mut self, dropped: &[RangeDrop]) {
        let known = &mut self.recovery.shadows.known;
        if known.is_empty() {
            return;
        }
        for range in dropped {
            if let Some(shadow) = known.get_mut(&range.segment) {
                shadow.drop_entry(range);
            }
        }
    }
}
