use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use mooncake_transfer::{Interrupt, Pin, ReadTicket, SegmentHost, SharedSegment, WriteTicket};
use mooncake_types::mutation::{Rule, is_broken};
use mooncake_types::{
    Epoch, ErrorCode, Follow, FollowPage, RangeDrop, RangeRead, RangeWrite, SegmentId, Version,
    limits,
};

use crate::ledger::{ChangedEntries, Inventory};
use crate::mapped::Segment;
use crate::mapped::pin::pin;

/// Longest wait of a writer for an older one in the same range to stop. It hears so before it takes a node that says nothing
/// for one that is gone.
const WRITER_PATIENCE: Duration = Duration::from_millis(500);

/// All segments that this process lends, and the highest epoch that they obey.
pub struct Host {
    segments: RwLock<Vec<Arc<Segment>>>,
    epoch: AtomicU64,
    patience: Duration,
}

impl Host {
    /// Lends these segments.
    #[must_use]
    pub fn new(segments: Vec<Segment>) -> Self {
        let epoch = segments.iter().map(Segment::epoch).max().unwrap_or(Epoch(0));
        segments.iter().for_each(|segment| segment.note_epoch(epoch));
        let segments = RwLock::new(segments.into_iter().map(Arc::new).collect());
        Self { segments, epoch: AtomicU64::new(epoch.0), patience: WRITER_PATIENCE }
    }

    /// Changes how long a writer waits for an older one in the same range to stop; half a second if this is
    /// not called.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// The segments, in the order in which they were lent.
    #[must_use]
    pub fn segments(&self) -> Vec<Arc<Segment>> {
        self.segments.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many processes have lent what outlives them, this one included; 1 if nothing does.
    #[must_use]
    pub fn run(&self) -> u64 {
        self.segments().iter().map(|segment| segment.run()).max().unwrap_or(1)
    }

    /// Lends one more segment.
    pub fn lend(&self, segment: Segment) {
        let segment = Arc::new(segment);
        let mut segments = self.segments.write().unwrap_or_else(PoisonError::into_inner);
        segments.push(Arc::clone(&segment));
        drop(segments);
        self.see_epoch(segment.epoch());
        segment.note_epoch(self.epoch());
    }

    /// Serves a segment no longer. Transfers that hold its memory end first; what they wrote is lost. Its memory is
    /// given back with the last of them.
    pub fn take_back(&self, id: SegmentId) {
        drop(self.withdraw(id));
    }

    /// As [`Host::take_back`]; does `next` once it is served no longer, and then waits, `patience` at most, for the last
    /// to have given the memory back.
    pub fn take_back_waiting<T>(
        &self,
        id: SegmentId,
        patience: Duration,
        next: impl FnOnce() -> T,
    ) -> T {
        let withdrawn = self.withdraw(id);
        let done = next();
        let Some(segment) = withdrawn else { return done };
        let memory = segment.watch_memory();
        drop(segment);
        let started = Instant::now();
        while memory.strong_count() > 0 && started.elapsed() < patience {
            std::thread::sleep(Duration::from_millis(1));
        }
        done
    }

    fn withdraw(&self, id: SegmentId) -> Option<Arc<Segment>> {
        let mut segments = self.segments.write().unwrap_or_else(PoisonError::into_inner);
        let position = segments.iter().position(|segment| segment.id() == id)?;
        let segment = segments.remove(position);
        segment.close();
        segment.recall();
        Some(segment)
    }

    /// Drops everything that lies in a segment, and calls it by a new id. False if there is no such segment.
    pub fn start_empty(&self, id: SegmentId, new_id: SegmentId) -> bool {
        let mut segments = self.segments.write().unwrap_or_else(PoisonError::into_inner);
        let Some(segment) = segments.iter_mut().find(|segment| segment.id() == id) else {
            return false;
        };
        let fresh = segment.start_empty(new_id);
        *segment = Arc::new(fresh);
        true
    }

    /// What a segment is called now that has, or had, this id.
    #[must_use]
    pub fn current_id(&self, id: SegmentId) -> Option<SegmentId> {
        self.called(id).map(|segment| segment.id())
    }

    /// Whether there is such a segment, and nothing lies in it.
    #[must_use]
    pub fn is_empty(&self, id: SegmentId) -> bool {
        self.segment(id).is_ok_and(|segment| segment.is_empty())
    }

    /// A page of what lies in a segment; see [`crate::Ledger::inventory`].
    ///
    /// # Errors
    /// [`ErrorCode::SegmentNotFound`].
    pub fn inventory(
        &self,
        id: SegmentId,
        from: u64,
        limit: usize,
    ) -> Result<Inventory, ErrorCode> {
        Ok(self.segment(id)?.inventory(from, limit))
    }

    /// A page of what changed in a segment since then, or nothing if that is not known any more; see
    /// [`crate::Ledger::changed`].
    ///
    /// # Errors
    /// [`ErrorCode::SegmentNotFound`].
    pub fn changed(
        &self,
        id: SegmentId,
        since: u64,
        limit: usize,
    ) -> Result<Option<ChangedEntries>, ErrorCode> {
        Ok(self.segment(id)?.changed(since, limit))
    }

    /// The highest epoch seen so far.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        Epoch(self.epoch.load(Ordering::SeqCst))
    }

    /// Takes note of a leader that this process's own master named; from then on the grants of older ones are refused.
    pub fn see_epoch(&self, epoch: Epoch) {
        if epoch > self.epoch() {
            // Before anything is done that it allows: a process that comes after this one obeys no older one either.
            self.segments().iter().for_each(|segment| segment.note_epoch(epoch));
        }
        self.epoch.fetch_max(epoch.0, Ordering::SeqCst);
    }

    fn segment(&self, id: SegmentId) -> Result<Arc<Segment>, ErrorCode> {
        let segments = self.segments.read().unwrap_or_else(PoisonError::into_inner);
        let found = segments.iter().find(|segment| segment.id() == id);
        found.cloned().ok_or(ErrorCode::SegmentNotFound)
    }

    /// The segment that has this id, or had it.
    fn called(&self, id: SegmentId) -> Option<Arc<Segment>> {
        let segments = self.segments.read().unwrap_or_else(PoisonError::into_inner);
        segments.iter().find(|segment| segment.is_called(id)).cloned()
    }
}

/// Whether a write may begin that was granted by the leader of `epoch`, at a node whose own master has named the epoch
/// `seen`. What others say of leaders proves nothing: a node that believed it could be led astray by any peer.
///
/// # Errors
/// [`ErrorCode::InvalidVersion`] if there is a newer leader, or the grant is of one. [`ErrorCode::UNKNOWN_LEADER`] if the
/// node's master has not named this one.
pub fn check_epoch(seen: Epoch, epoch: Epoch, grant: Version) -> Result<(), ErrorCode> {
    if epoch > seen {
        return Err(ErrorCode::UNKNOWN_LEADER);
    }
    let is_old = epoch < seen && !is_broken(Rule::OldLeadersAreRefused);
    match is_old || grant.epoch > epoch {
        true => Err(ErrorCode::InvalidVersion),
        false => Ok(()),
    }
}

/// Whether a drop may be done that the leader of `grant` named, at a node whose own master has named the epoch `seen`. A
/// later leader may have been told that the entry is there, and have had it copied: only that one can say what is to go.
///
/// # Errors
/// As [`check_epoch`].
pub fn check_drop(seen: Epoch, grant: Version) -> Result<(), ErrorCode> {
    if grant.epoch > seen {
        return Err(ErrorCode::UNKNOWN_LEADER);
    }
    match grant.epoch == seen || is_broken(Rule::OldLeadersDropsAreRefused) {
        true => Ok(()),
        false => Err(ErrorCode::InvalidVersion),
    }
}

impl SegmentHost for Host {
    fn owns(&self, segment: SegmentId) -> bool {
        self.segment(segment).is_ok()
    }

    fn epoch(&self) -> Epoch {
        Host::epoch(self)
    }

    fn begin_write(
        &self,
        epoch: Epoch,
        range: &RangeWrite<'_>,
        interrupt: Arc<dyn Interrupt>,
    ) -> Result<WriteTicket, ErrorCode> {
        let segment = self.segment(range.segment)?;
        let obeys = || check_epoch(self.epoch(), epoch, range.grant);
        segment.begin_write(range, interrupt, self.patience, obeys)
    }

    fn complete_write(&self, ticket: WriteTicket, checksums: Vec<u32>) -> Result<(), ErrorCode> {
        let segment = self.called(ticket.segment).ok_or(ErrorCode::SegmentNotFound)?;
        segment.complete_write(ticket.id, checksums)
    }

    fn abandon_write(&self, ticket: WriteTicket) {
        // In a segment that was taken back meanwhile nobody waits for this writer.
        if let Some(segment) = self.called(ticket.segment) {
            segment.abandon_write(ticket.id);
        }
    }

    fn begin_read(&self, range: &RangeRead) -> Result<ReadTicket, ErrorCode> {
        // A segment that is not here is as stale a route as a version that is not in it.
        let segment = self.segment(range.segment).map_err(|_| ErrorCode::ObjectNotFound)?;
        segment.begin_read(range)
    }

    fn pin(&self, range: &RangeRead, interrupt: Arc<dyn Interrupt>) -> Result<Pin, ErrorCode> {
        let segment = self.segment(range.segment).map_err(|_| ErrorCode::ObjectNotFound)?;
        pin(segment, range, interrupt)
    }

    fn drop_range(&self, range: &RangeDrop) -> Result<(), ErrorCode> {
        // What had a former id was dropped when it lost that.
        let segment = self.called(range.segment).ok_or(ErrorCode::SegmentNotFound)?;
        let obeys = || check_drop(self.epoch(), range.grant);
        match segment.id() == range.segment {
            true => segment.drop_entry(range, obeys),
            false => Ok(()),
        }
    }

    fn still_holds(&self, ticket: &ReadTicket) -> bool {
        self.segment(ticket.segment).is_ok_and(|segment| segment.still_holds(ticket))
    }

    fn learn_checksums(&self, ticket: &ReadTicket, checksums: &[u32]) -> bool {
        let segment = self.segment(ticket.segment);
        segment.is_ok_and(|segment| segment.learn_checksums(ticket, checksums))
    }

    fn share(&self, segment: SegmentId) -> Option<SharedSegment> {
        self.segment(segment).ok()?.share()
    }

    fn follow(
        &self,
        follow: &Follow,
        tell: &mut dyn FnMut(&FollowPage<'_>),
    ) -> Result<(), ErrorCode> {
        let segment = self.segment(follow.segment)?;
        let told = segment.follow(follow, limits::MAX_INVENTORY_PAGE_ENTRIES)?;
        tell(&told.page());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drop_is_done_only_for_the_leader_that_the_node_obeys() {
        let named_by = |epoch| Version { epoch: Epoch(epoch), counter: 1 };
        assert_eq!(check_drop(Epoch(5), named_by(5)), Ok(()));
        assert_eq!(check_drop(Epoch(5), named_by(4)), Err(ErrorCode::InvalidVersion));
        assert_eq!(check_drop(Epoch(5), named_by(6)), Err(ErrorCode::UNKNOWN_LEADER));
    }
}
