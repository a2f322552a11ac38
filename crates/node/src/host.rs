use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread::Builder;
use std::time::{Duration, Instant};

use mooncake_memory::{RawSlice, page_bytes};
use mooncake_transfer::{Interrupt, Pin, ReadTicket, SegmentHost, SharedSegment, WriteTicket};
use mooncake_types::{
    Epoch, ErrorCode, Follow, FollowPage, RangeDrop, RangeRead, RangeWrite, SegmentId, limits,
};

use crate::disk::{DiskLosses, DiskSegment, FailedDisk};
use crate::ledger::{ChangedEntries, Inventory, Ledger};
use crate::lent_segment::LentSegment;
use crate::machine::{LentSegments, PROMISE};
use crate::mapped::Segment;

/// Longest wait of a writer for an older one in the same range to stop. The writer gets this answer before it
/// takes a silent node for a dead one.
const WRITER_PATIENCE: Duration = Duration::from_millis(500);

/// Lost entries of one segment that the master does not know of; see [`Host::unreported_losses`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreportedLosses {
    segment: SegmentId,
    /// The number of the loss after the last one.
    next: u64,
    /// The key of each entry.
    pub keys: Vec<Box<str>>,
    /// The entries, in the same order.
    pub ranges: Vec<RangeDrop>,
}

/// The segments that this process lends, behind a lock. Transports call this type.
pub struct Host {
    lent: RwLock<LentSegments<LentSegment>>,
    /// The highest epoch that all segments obey, readable without the lock.
    epoch: AtomicU64,
    patience: Duration,
    /// Whether a disk was ever lent.
    has_disks: AtomicBool,
    /// Disks that failed and were taken back, and all that they had lost.
    failed: Mutex<(Vec<FailedDisk>, DiskLosses)>,
}

impl Host {
    /// Lends these segments.
    #[must_use]
    pub fn new(segments: Vec<Segment>) -> Self {
        let (lent, epoch) = (RwLock::default(), AtomicU64::new(0));
        let has_disks = AtomicBool::new(false);
        let failed = Mutex::default();
        let host = Self { lent, epoch, patience: WRITER_PATIENCE, has_disks, failed };
        segments.into_iter().for_each(|segment| host.lend(segment));
        host
    }

    /// Sets how long a writer waits for an older one in the same range to stop; half a second by default.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    fn lent(&self) -> RwLockReadGuard<'_, LentSegments<LentSegment>> {
        self.lent.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn lent_mut(&self) -> RwLockWriteGuard<'_, LentSegments<LentSegment>> {
        self.lent.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The segments in memory, in the order in which they were lent.
    #[must_use]
    pub fn segments(&self) -> Vec<Arc<Segment>> {
        let memory = |lent: &LentSegment| match lent {
            LentSegment::Memory(segment) => Some(Arc::clone(segment)),
            LentSegment::Disk(_) => None,
        };
        self.lent().iter().filter_map(memory).collect()
    }

    /// The segments on disks, in the order in which they were lent.
    #[must_use]
    pub fn disks(&self) -> Vec<Arc<DiskSegment>> {
        let disk = |lent: &LentSegment| match lent {
            LentSegment::Memory(_) => None,
            LentSegment::Disk(segment) => Some(Arc::clone(segment)),
        };
        self.lent().iter().filter_map(disk).collect()
    }

    /// The ids of all segments, in the order in which they were lent.
    #[must_use]
    pub fn ids(&self) -> Vec<SegmentId> {
        self.lent().ids().collect()
    }

    /// How many processes have lent the segments that outlive a process, this one included; 1 if there are
    /// none. All segments are mounted with this number. A master ascribes mounts of the same client with a
    /// smaller number to an earlier process.
    #[must_use]
    pub fn run(&self) -> u64 {
        self.lent().iter().map(LentSegment::run).max().unwrap_or(1)
    }

    /// Lends one more segment.
    pub fn lend(&self, segment: Segment) {
        let id = segment.id();
        self.lend_any(id, LentSegment::Memory(Arc::new(segment)));
    }

    /// Lends one more disk.
    pub fn lend_disk(&self, segment: DiskSegment) {
        let id = segment.id();
        self.has_disks.store(true, Ordering::Relaxed);
        self.lend_any(id, LentSegment::Disk(Arc::new(segment)));
    }

    fn lend_any(&self, id: SegmentId, segment: LentSegment) {
        let epoch = segment.machine().epoch();
        let mut lent = self.lent_mut();
        lent.lend(id, segment);
        self.obey(&mut lent, epoch);
    }

    /// Stops serving a segment. Transfers under way keep its memory until they end; what they write is lost.
    pub fn take_back(&self, id: SegmentId) {
        drop(self.withdraw(id));
    }

    /// As [`Host::take_back`]. Calls `next` once the segment is not served any more, then waits at most
    /// `patience` until the last transfer has given its memory back.
    pub fn take_back_waiting<T>(
        &self,
        id: SegmentId,
        patience: Duration,
        next: impl FnOnce() -> T,
    ) -> T {
        let withdrawn = self.withdraw(id);
        let done = next();
        let Some(segment) = withdrawn else { return done };
        let held = segment.watch();
        drop(segment);
        let started = Instant::now();
        while held.strong_count() > 0 && started.elapsed() < patience {
            std::thread::sleep(Duration::from_millis(1));
        }
        done
    }

    /// Returns once all promises of earlier processes have ended. Only then may a master or a peer learn what
    /// they left.
    pub fn outlast_promises(&self) {
        if self.run() > 1 {
            std::thread::sleep(PROMISE);
        }
    }

    /// Makes no more promises for these segments, and returns once all earlier ones have ended. Only then may
    /// the master learn that the segments leave.
    pub fn end_promises(&self, ids: &[SegmentId]) {
        let lent = ids.iter().filter_map(|&id| self.find(id).ok());
        let left = lent.filter_map(|segment| segment.end_promises()).max();
        std::thread::sleep(left.unwrap_or_default());
    }

    /// Makes promises for these segments again, since the master keeps them. Ignores segments that are not lent
    /// any more.
    pub fn resume_promises(&self, ids: &[SegmentId]) {
        let lent = ids.iter().filter_map(|&id| self.find(id).ok());
        lent.for_each(|segment| segment.resume_promises());
    }

    /// Takes back disks that have failed, since nothing can be dropped there any more, and returns them. A
    /// separate thread releases them: that waits for calls that an object store may not answer for long.
    pub fn take_back_broken(&self) -> Vec<FailedDisk> {
        let mut broken = Vec::new();
        let mut withdrawn = Vec::new();
        for disk in self.disks() {
            let Some(reason) = disk.failure() else { continue };
            let Some(segment) = self.withdraw(disk.id()) else { continue };
            let folder = disk.folder().map(Path::to_owned);
            broken.push(FailedDisk { segment: disk.id(), folder, reason });
            let mut failed = self.failed();
            failed.1 = failed.1.and(disk.losses());
            failed.0.extend(broken.last().cloned());
            withdrawn.push((segment, disk));
        }
        if !withdrawn.is_empty() {
            let thread = Builder::new().name("mooncake-disk-end".to_owned());
            // Without a thread, the closure releases them here.
            if let Err(error) = thread.spawn(move || drop(withdrawn)) {
                tracing::warn!(%error, "a failed disk is let go by the thread that found it");
            }
        }
        broken
    }

    /// The disks that failed since this process began, with their reasons.
    #[must_use]
    pub fn failed_disks(&self) -> Vec<FailedDisk> {
        self.failed().0.clone()
    }

    /// What all disks together have lost since this process began.
    #[must_use]
    pub fn disk_losses(&self) -> DiskLosses {
        let lent = self.disks().iter().fold(DiskLosses::default(), |sum, it| sum.and(it.losses()));
        lent.and(self.failed().1)
    }

    fn failed(&self) -> MutexGuard<'_, (Vec<FailedDisk>, DiskLosses)> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn withdraw(&self, id: SegmentId) -> Option<LentSegment> {
        let segment = self.lent_mut().take_back(id)?;
        segment.machine().take_back();
        Some(segment)
    }

    /// Drops everything in a segment, and gives it a new id. False if there is no segment with this id.
    pub fn start_empty(&self, id: SegmentId, new_id: SegmentId) -> bool {
        let started = self.lent_mut().start_empty(id, new_id, |segment| {
            segment.start_empty(new_id);
            segment.clone()
        });
        let Some(segment) = started else { return false };
        if let Err(code) = segment.settle() {
            tracing::error!(%code, "a segment that is to start empty cannot be");
        }
        true
    }

    /// The present id of the segment that has, or had, this id.
    #[must_use]
    pub fn current_id(&self, id: SegmentId) -> Option<SegmentId> {
        self.lent().current_id(id)
    }

    /// Whether there is a segment with this id, it is empty, and the master knows all that it lost; see
    /// [`crate::Ledger::is_empty`].
    #[must_use]
    pub fn is_empty(&self, id: SegmentId) -> bool {
        let is_empty = |segment: LentSegment| {
            segment.look(Ledger::is_empty) && !segment.machine().has_losses()
        };
        self.find(id).is_ok_and(is_empty)
    }

    /// A page of the entries in a segment; see [`crate::Ledger::inventory`].
    ///
    /// # Errors
    /// [`ErrorCode::SegmentNotFound`].
    pub fn inventory(
        &self,
        id: SegmentId,
        from: u64,
        limit: usize,
    ) -> Result<Inventory, ErrorCode> {
        Ok(self.find(id)?.look(|ledger| ledger.inventory(from, limit)))
    }

    /// A page of the changes in a segment from number `since` on, or `None` if some of these were forgotten;
    /// see [`crate::Ledger::changed`].
    ///
    /// # Errors
    /// [`ErrorCode::SegmentNotFound`].
    pub fn changed(
        &self,
        id: SegmentId,
        since: u64,
        limit: usize,
    ) -> Result<Option<ChangedEntries>, ErrorCode> {
        Ok(self.find(id)?.look(|ledger| ledger.changed(since, limit)))
    }

    /// Whether entries of some segment are lost that the master does not know of.
    #[must_use]
    pub fn has_losses(&self) -> bool {
        self.lent().iter().any(|segment| segment.machine().has_losses())
    }

    /// Lost entries of one segment that the master does not know of, with their keys, at most `limit`.
    #[must_use]
    pub fn unreported_losses(&self, limit: usize) -> Option<UnreportedLosses> {
        let lent = self.lent();
        let segment = lent.iter().find(|segment| segment.machine().has_losses())?;
        let (losses, next) = segment.machine().oldest_losses(limit);
        let (keys, ranges) = losses.into_iter().unzip();
        Some(UnreportedLosses { segment: segment.machine().id(), keys, ranges, next })
    }

    /// The master knows these losses now.
    pub fn on_losses_reported(&self, losses: &UnreportedLosses) {
        if let Ok(segment) = self.find(losses.segment) {
            segment.machine().forget_losses_before(losses.next);
        }
    }

    /// The highest epoch that all segments obey.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        Epoch(self.epoch.load(Ordering::SeqCst))
    }

    /// Obeys a leader that this process's own master named. From then on the grants of older leaders are
    /// refused.
    pub fn see_epoch(&self, epoch: Epoch) {
        if epoch > self.epoch() {
            self.obey(&mut self.lent_mut(), epoch);
        }
    }

    fn obey(&self, lent: &mut LentSegments<LentSegment>, epoch: Epoch) {
        lent.obey(epoch, |segment, epoch| segment.machine().obey(epoch));
        self.epoch.store(lent.epoch().0, Ordering::SeqCst);
    }

    /// Drops an entry from its ledger, and returns its segment, which the caller must settle.
    fn begin_drop(&self, range: &RangeDrop) -> Result<LentSegment, ErrorCode> {
        let segment = self.find_ever(range.segment)?;
        segment.machine().drop_entry(range)?;
        Ok(segment)
    }

    fn find(&self, id: SegmentId) -> Result<LentSegment, ErrorCode> {
        self.lent().find(id).cloned()
    }

    fn find_ever(&self, id: SegmentId) -> Result<LentSegment, ErrorCode> {
        self.lent().find_ever(id).cloned()
    }
}

impl SegmentHost for Host {
    fn owns(&self, segment: SegmentId) -> bool {
        self.find(segment).is_ok()
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
        self.find(range.segment)?.begin_write((epoch, range), interrupt, self.patience)
    }

    fn write_in_place(
        &self,
        epoch: Epoch,
        range: &RangeWrite<'_>,
        bytes: RawSlice<'_>,
        interrupt: Arc<dyn Interrupt>,
    ) -> Option<Result<(), ErrorCode>> {
        let is_whole = range.from == 0 && range.len == range.entry_len;
        // Unaligned bytes would pass through the system's cache on their way to the disk.
        let is_aligned = bytes.as_ptr().addr().is_multiple_of(page_bytes() as usize);
        if !is_whole || !is_aligned || bytes.len() as u64 != range.len {
            return None;
        }
        match self.find(range.segment).ok()? {
            LentSegment::Disk(disk) => {
                Some(disk.write_in_place((epoch, range), bytes, interrupt, self.patience))
            }
            LentSegment::Memory(_) => None,
        }
    }

    fn complete_write(&self, ticket: WriteTicket, checksums: Vec<u32>) -> Result<(), ErrorCode> {
        self.find_ever(ticket.segment)?.complete_write(ticket, checksums)
    }

    fn abandon_write(&self, ticket: WriteTicket) {
        // If the segment was taken back meanwhile, no other writer waits for this one.
        if let Ok(segment) = self.find_ever(ticket.segment) {
            segment.machine().abandon(ticket.id);
        }
    }

    fn begin_read(&self, range: &RangeRead) -> Result<ReadTicket, ErrorCode> {
        self.find(range.segment)?.begin_read(range)
    }

    fn pin(&self, range: &RangeRead, interrupt: Arc<dyn Interrupt>) -> Result<Pin, ErrorCode> {
        self.find(range.segment)?.pin(range, interrupt)
    }

    fn promise(&self, range: &RangeRead) -> Result<(), ErrorCode> {
        self.find(range.segment)?.promise(range)
    }

    fn drop_range(&self, range: &RangeDrop) -> Result<(), ErrorCode> {
        self.begin_drop(range)?.settle()
    }

    fn drop_ranges(&self, ranges: &[RangeDrop]) -> Vec<Result<(), ErrorCode>> {
        let begun: Vec<_> = ranges.iter().map(|range| self.begin_drop(range)).collect();
        // Settle each segment once: an object store that does not answer delays every call.
        let mut settled = BTreeMap::new();
        let end = |(range, begun): (&RangeDrop, Result<LentSegment, ErrorCode>)| {
            let segment = begun?;
            *settled.entry(range.segment).or_insert_with(|| segment.settle())
        };
        ranges.iter().zip(begun).map(end).collect()
    }

    fn reads_from_disk(&self, segment: SegmentId) -> bool {
        let is_disk = |segment: LentSegment| matches!(segment, LentSegment::Disk(_));
        self.has_disks.load(Ordering::Relaxed) && self.find(segment).is_ok_and(is_disk)
    }

    fn still_holds(&self, ticket: &ReadTicket) -> bool {
        self.find(ticket.segment).is_ok_and(|segment| segment.machine().still_holds(ticket))
    }

    fn learn_checksums(&self, ticket: &ReadTicket, checksums: &[u32]) -> bool {
        let segment = self.find(ticket.segment);
        segment.is_ok_and(|segment| segment.learn_checksums(ticket, checksums))
    }

    fn share(&self, segment: SegmentId) -> Option<SharedSegment> {
        self.find(segment).ok()?.share(segment)
    }

    fn follow(
        &self,
        follow: &Follow,
        tell: &mut dyn FnMut(&FollowPage<'_>),
    ) -> Result<(), ErrorCode> {
        let most = limits::MAX_INVENTORY_PAGE_ENTRIES;
        let answer = self.find(follow.segment)?.look(|ledger| ledger.follow(follow, most))?;
        tell(&answer.page());
        Ok(())
    }
}
