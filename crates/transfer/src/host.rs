use std::sync::Arc;

use mooncake_memory::{HeldSlice, RawSlice, Region, SlotTable};
use mooncake_types::{
    Epoch, ErrorCode, Follow, FollowPage, RangeDrop, RangeRead, RangeWrite, SegmentId, Version,
};

/// What a node offers to transports: its segments and their ledgers. A ledger belongs to the host; a transport only
/// moves bytes while it holds a ticket.
///
/// A transport that receives bytes completes or abandons each ticket before it begins the next write. So
/// `begin_write` may wait until an older writer has left. A peer that writes in place, and a write from devices, hold
/// tickets of several ranges. They begin those of newer grants first, so that no two of them wait for each other.
pub trait SegmentHost: Send + Sync {
    /// Whether this segment is one of the host's.
    fn owns(&self, segment: SegmentId) -> bool;

    /// The highest epoch that the host has seen; zero before the first. The welcome tells it to clients.
    fn epoch(&self) -> Epoch;

    /// Gives the right to write the `range.len` bytes from `range.from` on of a granted range. The host refuses
    /// epochs older than it has seen, and grants older than any that began in the range.
    ///
    /// The first write under a grant takes the whole range:
    /// 1. The host drops the ledger entries that overlap it.
    /// 2. It interrupts older writers that are still in the range.
    /// 3. It waits until these have completed or abandoned their tickets.
    ///
    /// Several writers of one grant may be at work at once, each in a part that no other is in. A part may be sent
    /// again until the entry is complete, once its first writer has abandoned or completed it.
    ///
    /// # Errors
    /// Why the node refuses, for example:
    /// - `InvalidVersion` for an older grant, or one of another range or object;
    /// - `ObjectReplicaBusy` if a writer of the same grant is at work in the part;
    /// - `InvalidWrite` for a part of an entry that is complete, or one that runs past the end of its range.
    fn begin_write(
        &self,
        epoch: Epoch,
        range: &RangeWrite<'_>,
        interrupt: Arc<dyn Interrupt>,
    ) -> Result<WriteTicket, ErrorCode>;

    /// Writes a whole entry straight from memory of this process, if the host can, as disks do. The memory must not
    /// change meanwhile. `None` if the bytes have to be copied to the memory that [`SegmentHost::begin_write`] gives.
    ///
    /// # Errors
    /// As [`SegmentHost::begin_write`] and [`SegmentHost::complete_write`].
    fn write_in_place(
        &self,
        epoch: Epoch,
        range: &RangeWrite<'_>,
        bytes: RawSlice<'_>,
        interrupt: Arc<dyn Interrupt>,
    ) -> Option<Result<(), ErrorCode>> {
        let _ = (epoch, range, bytes, interrupt);
        None
    }

    /// Notes that the ticket's bytes are in place; `checksums` has one for each chunk. The entry becomes readable
    /// when all of it is in place.
    ///
    /// # Errors
    /// If the range has a newer owner by now. Then the entry is dropped.
    fn complete_write(&self, ticket: WriteTicket, checksums: Vec<u32>) -> Result<(), ErrorCode>;

    /// Gives a ticket up whose bytes did not all arrive. No byte is written under it any more. Other parts of the
    /// entry stay.
    fn abandon_write(&self, ticket: WriteTicket);

    /// Finds the bytes of `range`.
    ///
    /// # Errors
    /// `ObjectNotFound` if the ledger does not hold that version there, complete; `SegmentNotFound`; `InvalidParams`
    /// if the range runs past the end of its entry.
    fn begin_read(&self, range: &RangeRead) -> Result<ReadTicket, ErrorCode>;

    /// Promises not to report the entry of `range` as dropped for [`mooncake_types::limits::PROMISE_MS`]. Meanwhile a
    /// reader uses its copy without asking.
    ///
    /// # Errors
    /// As [`SegmentHost::begin_read`], and [`ErrorCode::NoAvailableHandle`] if it promises nothing.
    fn promise(&self, range: &RangeRead) -> Result<(), ErrorCode> {
        let _ = range;
        Err(ErrorCode::NoAvailableHandle)
    }

    /// Drops an entry. When this returns, no reader finds that version there. A reader that had begun learns so from
    /// [`SegmentHost::still_holds`]. Other entries there stay.
    ///
    /// # Errors
    /// `SegmentNotFound` if the segment is not the host's: the node that has it may still hold the entry.
    /// `ObjectHasLease` while the entry is promised.
    fn drop_range(&self, range: &RangeDrop) -> Result<(), ErrorCode>;

    /// Like [`SegmentHost::drop_range`] for many ranges. A host that has to wait for a disk does so once.
    fn drop_ranges(&self, ranges: &[RangeDrop]) -> Vec<Result<(), ErrorCode>> {
        ranges.iter().map(|range| self.drop_range(range)).collect()
    }

    /// Whether reads of this segment wait for a disk. Several of them should begin at the same time.
    fn reads_from_disk(&self, segment: SegmentId) -> bool {
        let _ = segment;
        false
    }

    /// Whether the ledger has held the ticket's entry ever since it gave the ticket out. Asked after the bytes were
    /// copied.
    fn still_holds(&self, ticket: &ReadTicket) -> bool;

    /// Like [`SegmentHost::still_holds`], for a ticket without checksums. The host may keep these, computed from the
    /// copied bytes, for the next reader.
    fn learn_checksums(&self, ticket: &ReadTicket, checksums: &[u32]) -> bool {
        let _ = checksums;
        self.still_holds(ticket)
    }

    /// Keeps the bytes of `range` unchanged until the pin is dropped, even if the object goes. A writer of the range
    /// waits for that, for a while. The host calls `interrupt` when a writer waits, or when the segment is taken
    /// back.
    ///
    /// # Errors
    /// As [`SegmentHost::begin_read`], and [`ErrorCode::NoAvailableHandle`] if too much is pinned already.
    fn pin(&self, range: &RangeRead, interrupt: Arc<dyn Interrupt>) -> Result<Pin, ErrorCode> {
        let _ = (range, interrupt);
        Err(ErrorCode::NoAvailableHandle)
    }

    /// How other processes of this host access the memory of a segment directly; `None` if they cannot.
    fn share(&self, segment: SegmentId) -> Option<SharedSegment> {
        let _ = segment;
        None
    }

    /// Whether peers of other hosts read and write memory of this segment one-sided, each range after a message: it has no
    /// table of slots.
    fn exposes(&self, segment: SegmentId) -> bool {
        let _ = segment;
        false
    }

    /// Calls `tell` with a page for a standby master: entries of a segment, or changes of them. Does not call it on
    /// failure.
    ///
    /// # Errors
    /// `SegmentNotFound`; `InvalidVersion` if the host has forgotten the changes since then;
    /// `UnavailableInCurrentMode` if it serves no standby masters.
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
    /// The table of its readable ranges. The host removes a range from the table before it drops the entry in its
    /// ledger, and so before any byte of it may change.
    pub slots: Arc<SlotTable>,
}

/// Makes a writer complete or abandon its ticket soon, without waiting for anything. Makes the owner of a pin drop it
/// soon.
pub trait Interrupt: Send + Sync {
    /// Never waits. May be called at any time, more than once, and under the host's lock.
    fn interrupt(&self);
}

/// The right to write one range, or a part of it, until it is completed or abandoned.
#[derive(Debug)]
pub struct WriteTicket {
    /// The memory to write to.
    pub memory: HeldSlice,
    /// The host's name for this write.
    pub id: u64,
    /// The segment.
    pub segment: SegmentId,
}

/// Keeps a range unchanged until it is dropped.
pub struct Pin {
    /// The segment's memory, which stays mapped and is not emptied.
    pub region: Arc<Region>,
    /// Tells the host when it is dropped.
    pub keeper: Box<dyn Send + Sync>,
}

/// Where a version lies. The host may drop it at any time.
#[derive(Clone, Debug)]
pub struct ReadTicket {
    /// The wanted bytes.
    pub memory: HeldSlice,
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
