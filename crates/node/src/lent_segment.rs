//! A lent segment, whatever its bytes lie in.

use std::any::Any;
use std::ops::Deref;
use std::sync::{Arc, Weak};
use std::time::Duration;

use mooncake_transfer::{Interrupt, Pin, SharedSegment};
use mooncake_types::{ErrorCode, RangeRead, SegmentId};

use crate::disk::DiskSegment;
use crate::ledger::Ledger;
use crate::mapped::Segment;
use crate::shell::SegmentShell;

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

    /// Upgrades as long as the memory, or the disk, is held.
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

    /// Promises not to say for a while that an entry is dropped. A disk promises nothing: to ask it each time costs little beside
    /// a read of it.
    pub(crate) fn promise(&self, range: &RangeRead) -> Result<(), ErrorCode> {
        match self {
            Self::Memory(segment) => segment.promise(range),
            Self::Disk(_) => Err(ErrorCode::NoAvailableHandle),
        }
    }

    /// Promises nothing any more, and gives how long earlier promises still hold.
    pub(crate) fn end_promises(&self) -> Option<Duration> {
        match self {
            Self::Memory(segment) => segment.end_promises(),
            Self::Disk(_) => None,
        }
    }

    /// Promises again.
    pub(crate) fn resume_promises(&self) {
        if let Self::Memory(segment) = self {
            segment.resume_promises();
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
