//! Inventories: nodes report the ledgers of their segments to a new leader, page by page.
//!
//! The leader reserves the ranges of a page, and their objects can be read at once. It grants nothing on a segment
//! before the last page. So a node that begins its inventory again has no newer entries there: the leader compares the
//! part that it knows (see `review`) and takes the rest. If a page makes no sense, the leader strikes the segment and
//! trusts none of its entries.

use mooncake_types::mutation::{Rule, is_broken};
use mooncake_types::{ClientId, ErrorCode, InventoryEntry, InventoryPage};

use super::attributes::Attributes;
use super::entry::{ImplausibleReport, read_entry};
use crate::Meta;
use crate::effort::Effort;
use crate::segments::Piece;
use crate::segments::{Closed, ReportProgress};

/// Number of entries whose keys are fetched from the index ahead of their turn.
const AHEAD: usize = 256;

impl Meta {
    /// A segment begins its inventory.
    pub(crate) fn begin_inventory(&mut self, slot: u32) {
        self.note_progress();
        self.segments.set_progress(slot, Some(ReportProgress::default()));
        if is_broken(Rule::RangesAreReserved) {
            self.segments.set(slot, Closed::Recovering, false);
        }
    }

    pub(crate) fn report_inventory(
        &mut self,
        from: ClientId,
        page: &InventoryPage<'_>,
    ) -> Result<(), ErrorCode> {
        let slot = self.segments.find(page.segment).ok_or(ErrorCode::SegmentNotFound)?;
        let segment = &self.segments[slot];
        if segment.client != from {
            return Err(ErrorCode::IllegalClient);
        }
        // The leader refuses pages of a process that has lost the memory to another process.
        let is_expected = !segment.is(Closed::Struck) && segment.run == page.run;
        let progress = segment.recovering.filter(|_| is_expected);
        let progress = progress.ok_or(ErrorCode::UnavailableInCurrentStatus)?;
        if page.page == 0 {
            self.recovery.shadows.forget(page.segment);
            self.compare(slot, progress);
        }
        match self.take_page(slot, page) {
            Ok(()) => Ok(()),
            Err(ImplausibleReport) => {
                self.strike(slot);
                Err(ErrorCode::InvalidParams)
            }
        }
    }

    pub(super) fn take_page(
        &mut self,
        slot: u32,
        page: &InventoryPage<'_>,
    ) -> Result<(), ImplausibleReport> {
        let mut progress = self.segments[slot].recovering.ok_or(ImplausibleReport)?;
        if page.page != progress.next_page {
            return Err(ImplausibleReport);
        }
        for (place, entry) in page.entries.iter().enumerate() {
            if place % AHEAD == 0 {
                let soon = page.entries[place..].iter().take(AHEAD);
                self.index.fetch_ahead(&self.objects, &self.ranges, soon.map(|it| it.key));
            }
            let attributes = self.check_entry(entry, slot, &progress)?;
            progress.end = entry.offset + entry.len;
            if entry.offset < progress.known_to {
                self.review_entry(slot, entry);
                continue;
            }
            let free_until = match page.entries.get(place + 1) {
                Some(next) => next.offset.max(progress.end),
                None if page.last => self.segments[slot].allocator.capacity(),
                None => progress.end,
            };
            let place = (entry.offset, entry.len);
            let handle = self.segments.occupy(slot, place, free_until).ok_or(ImplausibleReport)?;
            let piece = Piece { segment: slot, handle, len: entry.len };
            self.take_entry(entry, piece, attributes)?;
        }
        // A segment whose node begins its report over and over again makes no progress.
        if page.last || progress.end > progress.known_to {
            self.note_progress();
        }
        progress.next_page = progress.next_page.checked_add(1).ok_or(ImplausibleReport)?;
        self.segments.set_progress(slot, Some(progress));
        if page.last {
            self.end_inventory(slot);
        }
        Ok(())
    }

    /// Whether a leader can have granted the next entry. An entry that is not compared must come from an earlier
    /// leader.
    fn check_entry<'a>(
        &self,
        entry: &InventoryEntry<'a>,
        slot: u32,
        progress: &ReportProgress,
    ) -> Result<Attributes<'a>, ImplausibleReport> {
        let end = entry.offset.checked_add(entry.len);
        let capacity = self.segments[slot].allocator.capacity();
        let is_placed = entry.offset >= progress.end && end.is_some_and(|end| end <= capacity);
        let is_granted = match entry.offset < progress.known_to {
            true => entry.grant <= self.term.newest_grant(),
            false => entry.grant.epoch < self.term.epoch(),
        };
        match is_placed && is_granted {
            true => read_entry(entry),
            false => Err(ImplausibleReport),
        }
    }

    /// The segment has reported all its entries. It takes puts from now on, unless it is marked behind or under
    /// review.
    pub(crate) fn end_inventory(&mut self, slot: u32) {
        let id = self.segments[slot].id;
        self.segments.set_progress(slot, None);
        self.segments.set(slot, Closed::Recovering, false);
        self.end_naming(slot);
        self.effort = Effort::of_turn();
        self.advance_reviews();
        self.repair.wake();
        self.catch_up(slot);
        self.on_reported(id);
    }
}
