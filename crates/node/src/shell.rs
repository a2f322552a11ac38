//! What a host asks of a lent segment, whatever its bytes lie in.

use std::any::Any;
use std::ops::Deref;
use std::sync::{Arc, Weak};
use std::time::Duration;

use mooncake_transfer::{Interrupt, Pin, ReadTicket, SharedSegment, WriteTicket};
use mooncake_types::{Epoch, ErrorCode, RangeDrop, RangeRead, RangeWrite, SegmentId};

use crate::disk::DiskSegment;
use crate::ledger::Ledger;
use crate::mapped::Segment;

/// The shell of a [`SegmentMachine`](crate::SegmentMachine), as its host sees it.
pub(crate) trait SegmentShell: Send + Sync {
    /// The highest epoch that it obeys, or is known to have obeyed before.
    fn epoch(&self) -> Epoch;

    /// Obeys an epoch from now on.
    fn obey(&self, epoch: Epoch);

    /// Drops everything that lies here, and tells all writers to stop. It has another id from now on.
    fn start_empty(&self, id: SegmentId);

    /// Returns once all that was dropped before is gone for good. No lock is held meanwhile.
    fn settle(&self) -> Result<(), ErrorCode> {
        Ok(())
    }

    /// Is lent no longer.
    fn take_back(&self);

    /// Takes a range, or a part of one, for a writer, and waits, `patience` at most, for all that is in the way.
    fn begin_write(
        &self,
        write: (Epoch, &RangeWrite<'_>),
        writer: Arc<dyn Interrupt>,
        patience: Duration,
    ) -> Result<WriteTicket, ErrorCode>;

    /// All bytes of a part are in place.
    fn complete_write(&self, ticket: WriteTicket, checksums: Vec<u32>) -> Result<(), ErrorCode>;

    /// A writer changes nothing any more, and its part is not in place.
    fn abandon_write(&self, ticket: WriteTicket);

    /// Where the bytes of a range are.
    fn begin_read(&self, range: &RangeRead) -> Result<ReadTicket, ErrorCode>;

    /// Drops an entry; see [`SegmentMachine::drop_entry`](crate::SegmentMachine::drop_entry). It is gone for good once
    /// [`SegmentShell::settle`] returns.
    fn drop_entry(&self, range: &RangeDrop) -> Result<(), ErrorCode>;

    /// Whether the entry of a ticket has been here all the time.
    fn still_holds(&self, ticket: &ReadTicket) -> bool;

    /// As [`SegmentShell::still_holds`], and may keep what the reader computed.
    fn learn_checksums(&self, ticket: &ReadTicket, checksums: &[u32]) -> bool;
}

/// A lent segment, by what its bytes lie in.
#[derive(Clone)]
pub(crate) enum LentSegment {
    Memory(Arc<Segment>),
    Disk(Arc<DiskSegment>),
}

impl Deref for LentSegment {
    type Target = dyn SegmentShell;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Memory(segment) => &**segment,
            Self::Disk(segment) => &**segment,
        }
    }
}

impl LentSegment {
    /// How many processes have lent it, this one included.
    pub(crate) fn run(&self) -> u64 {
        match self {
            Self::Memory(segment) => segment.run(),
            Self::Disk(segment) => segment.run(),
        }
    }

    /// Looks at the ledger, under its lock: no write or read begins meanwhile.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Ledger) -> T) -> T {
        match self {
            Self::Memory(segment) => segment.look(look),
            Self::Disk(segment) => segment.look(look),
        }
    }

    /// Tells whether anybody still holds the memory, or the disk.
    pub(crate) fn watch(&self) -> Weak<dyn Any + Send + Sync> {
        match self {
            Self::Memory(segment) => segment.watch_memory(),
            Self::Disk(segment) => Arc::<DiskSegment>::downgrade(segment),
        }
    }

    /// Keeps a range as it is. What lies on a disk is in no memory that could stay as it is.
    pub(crate) fn pin(
        self,
        range: &RangeRead,
        interrupt: Arc<dyn Interrupt>,
    ) -> Result<Pin, ErrorCode> {
        match self {
            Self::Memory(segment) => crate::mapped::pin::pin(segment, range, interrupt),
            Self::Disk(_) => Err(ErrorCode::NoAvailableHandle),
        }
    }

    /// How other processes of this host reach its memory by themselves.
    pub(crate) fn share(&self, id: SegmentId) -> Option<SharedSegment> {
        match self {
            Self::Memory(segment) => segment.share(id),
            Self::Disk(_) => None,
        }
    }
}
