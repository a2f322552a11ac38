use std::sync::Arc;

use mooncake_memory::{RawSlice, Region, SlotTable};
use mooncake_types::{
    Epoch, ErrorCode, Follow, FollowPage, RangeDrop, RangeRead, RangeWrite, SegmentId, Version,
};

/// What a node offers to transports: its segments and the ledgers of what they hold. A ledger belongs to the host;
/// a transport only moves bytes while it holds a ticket.
///
/// A transport that receives bytes never holds one ticket while it begins a write: it completes or abandons each first. So
/// a host may make `begin_write` wait until an older writer has left. For a peer that puts bytes in
/// place by itself tickets of several ranges are held, those of newer grants begun first, so that no two such wait for each
/// other.
pub trait SegmentHost: Send + Sync {
    /// Is this segment one of the host's?
    fn owns(&self, segment: SegmentId) -> bool;

    /// The highest epoch that the host has seen; zero before the first. Clients are told it when they connect.
    fn epoch(&self) -> Epoch;

    /// The right to write the `range.len` bytes from `range.from` on of a granted range. The host refuses epochs older
    /// than it has seen, and grants older than any that began in the range. The first write under a grant takes all of
    /// the range: the host drops the ledger entries that overlap it, interrupts an older writer that is still in them
    /// and waits until those in the way have completed or abandoned their tickets.
    ///
    /// Several writers of one grant may be at work at once, each in a part that no other is in. A part may be sent again
    /// until the entry is complete, once its first writer has abandoned or completed it.
    ///
    /// # Errors
    /// Why the node refuses: among others `InvalidVersion` for an older grant or one of another range or object,
    /// `ObjectReplicaBusy` if a writer of the same grant is at work in the part, and `InvalidWrite` for a part of an
    /// entry that is complete, or one that runs past the end of its range.
    fn begin_write(
        &self,
        epoch: Epoch,
        range: &RangeWrite<'_>,
        interrupt: Arc<dyn Interrupt>,
    ) -> Result<WriteTicket, ErrorCode>;

    /// Writes a whole entry from memory of this process that does not change meanwhile, if the host can take the bytes from where
    /// they are, as disks do. None if they are to be copied to where [`SegmentHost::begin_write`] says.
    ///
    /// # Errors
    /// As [`SegmentHost::begin_write`] and [`SegmentHost::complete_write`].
    fn write_in_place(
        &self,
        epoch: Epoch,
        range: &RangeWrite<'_>,
        bytes: RawSlice,
        interrupt: Arc<dyn Interrupt>,
    ) -> Option<Result<(), ErrorCode>> {
        let _ = (epoch, range, bytes, interrupt);
        None
    }

    /// The bytes that the ticket is for are in place; `checksums` are theirs, one for each chunk. The entry becomes
    /// readable when all of it is in place.
    ///
    /// # Errors
    /// If the range has a newer owner meanwhile; the entry is dropped then.
    fn complete_write(&self, ticket: WriteTicket, checksums: Vec<u32>) -> Result<(), ErrorCode>;

    /// The bytes did not all arrive. None is written under this ticket any more; other parts of the entry stay as they
    /// are.
    fn abandon_write(&self, ticket: WriteTicket);

    /// Where the bytes of `range` lie.
    ///
    /// # Errors
    /// `ObjectNotFound` if the ledger does not hold that version there, complete; `SegmentNotFound`; `InvalidParams` if
    /// the range runs past the end of its entry.
    fn begin_read(&self, range: &RangeRead) -> Result<ReadTicket, ErrorCode>;

    /// Promises that nobody hears for [`mooncake_types::limits::PROMISE_MS`] that the entry of `range` is dropped. A reader
    /// that has a copy uses it meanwhile without asking.
    ///
    /// # Errors
    /// As [`SegmentHost::begin_read`], and [`ErrorCode::NoAvailableHandle`] if it promises nothing.
    fn promise(&self, range: &RangeRead) -> Result<(), ErrorCode> {
        let _ = range;
        Err(ErrorCode::NoAvailableHandle)
    }

    /// Drops an entry: when this returns nobody finds that version there any more, and who has begun to read it learns
    /// so from [`SegmentHost::still_holds`]. Whatever else lies there stays.
    ///
    /// # Errors
    /// `SegmentNotFound` if the segment is not the host's: whoever has it may still hold the entry. `ObjectHasLease` while the
    /// entry is promised.
    fn drop_range(&self, range: &RangeDrop) -> Result<(), ErrorCode>;

    /// As [`SegmentHost::drop_range`], of many ranges: a host that has to wait for a disk does so once.
    fn drop_ranges(&self, ranges: &[RangeDrop]) -> Vec<Result<(), ErrorCode>> {
        ranges.iter().map(|range| self.drop_range(range)).collect()
    }

    /// Whether who begins to read this segment waits for a disk: several ranges are better begun at the same time.
    fn reads_from_disk(&self, segment: SegmentId) -> bool {
        let _ = segment;
        false
    }

    /// Has the ledger held the ticket's entry all the time since it was given out? Asked after the bytes were copied.
    fn still_holds(&self, ticket: &ReadTicket) -> bool;

    /// As [`SegmentHost::still_holds`], after the checksums of the bytes were computed, since the ticket had none: the host may
    /// keep them for the next who reads these bytes.
    fn learn_checksums(&self, ticket: &ReadTicket, checksums: &[u32]) -> bool {
        let _ = checksums;
        self.still_holds(ticket)
    }

    /// Keeps the bytes of `range` as they are until the pin is dropped, whatever becomes of the object: a writer of the
    /// range waits for that, for a while. It is asked for by `interrupt` when a writer waits, or the segment is taken back.
    ///
    /// # Errors
    /// As [`SegmentHost::begin_read`], and [`ErrorCode::NoAvailableHandle`] if too much is pinned already.
    fn pin(&self, range: &RangeRead, interrupt: Arc<dyn Interrupt>) -> Result<Pin, ErrorCode> {
        let _ = (range, interrupt);
        Err(ErrorCode::NoAvailableHandle)
    }

    /// How other processes of this host reach the memory of a segment by themselves; `None` if they do not.
    fn share(&self, segment: SegmentId) -> Option<SharedSegment> {
        let _ = segment;
        None
    }

    /// Tells a master that stands by a page of what lies in a segment, or of what changed there, unless it fails.
    ///
    /// # Errors
    /// `SegmentNotFound`; `InvalidVersion` if it is not known any more what changed since then;
    /// `UnavailableInCurrentMode` if the host tells nobody.
    fn follow(
        &self,
        follow: &Follow,
        tell: &mut dyn FnMut(&FollowPage<'_>),
    ) -> Result<(), ErrorCode> {
        let _ = (follow, tell);
        Err(ErrorCode::UnavailableInCurrentMode)
    }
}

/// A segment that other processes read without asking.
#[derive(Clone, Debug)]
pub struct SharedSegment {
    /// Its memory.
    pub region: Arc<Region>,
    /// What of it can be read. The host takes a range out of it before it drops the entry in its ledger, and so before
    /// anybody may change a byte of it.
    pub slots: Arc<SlotTable>,
}

/// Makes a writer leave its range soon: it will complete or abandon its ticket without waiting for anything. Of who pinned
/// a range: the pin will be dropped soon.
pub trait Interrupt: Send + Sync {
    /// Never waits. May be called at any time, more than once, and under the host's lock.
    fn interrupt(&self);
}

/// The right to write one range, or a part of it, until it is completed or abandoned.
#[derive(Debug)]
pub struct WriteTicket {
    /// The memory of what is written.
    pub memory: RawSlice,
    /// Keeps the memory mapped.
    pub region: Arc<Region>,
    /// The host's name for this write.
    pub id: u64,
    /// The segment.
    pub segment: SegmentId,
}

/// Keeps a range as it is until it is dropped.
pub struct Pin {
    /// The segment's memory, which stays mapped and is not emptied.
    pub region: Arc<Region>,
    /// Tells the host when it is dropped.
    pub keeper: Box<dyn Send + Sync>,
}

/// Where a version lies; it may go at any time.
#[derive(Clone, Debug)]
pub struct ReadTicket {
    /// The wanted bytes.
    pub memory: RawSlice,
    /// Keeps the memory mapped.
    pub region: Arc<Region>,
    /// One checksum for each chunk, if whole chunks of the entry are wanted and they are known.
    pub checksums: Option<Arc<[u32]>>,
    /// The segment.
    pub segment: SegmentId,
    /// Where the entry starts in its segment, in bytes.
    pub offset: u64,
    /// Where the wanted bytes start in the entry.
    pub from: u64,
    /// The version that lies there.
    pub version: Version,
    /// The grant that it was written under.
    pub grant: Version,
}
