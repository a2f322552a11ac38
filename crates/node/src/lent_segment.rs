//! Lent segments, in memory and on disks.

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

/// A lent segment, by the medium of its bytes.
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

    /// A weak reference to the memory or the disk. It upgrades for as long as either is in use.
    pub(crate) fn watch(&self) -> Weak<dyn Any + Send + Sync> {
        match self {
            Self::Memory(segment) => segment.watch_memory(),
            Self::Disk(segment) => Arc::<DiskSegment>::downgrade(segment),
        }
    }

    /// Keeps a range unchanged. Refused for a disk, whose bytes lie in no memory that could be kept.
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

    /// Promises to confirm no drop of an entry for a while. Refused for a disk: asking it each time costs little
    /// beside reading from it.
    pub(crate) fn promise(&self, range: &RangeRead) -> Result<(), ErrorCode> {
        match self {
            Self::Memory(segment) => segment.promise(range),
            Self::Disk(_) => Err(ErrorCode::NoAvailableHandle),
        }
    }

    /// Makes no more promises, and returns how long earlier ones still hold.
    pub(crate) fn end_promises(&self) -> Option<Duration> {
        match self {
            Self::Memory(segment) => segment.end_promises(),
            Self::Disk(_) => None,
        }
    }

    /// Makes promises again.
    pub(crate) fn resume_promises(&self) {
        if let Self::Memory(segment) = self {
            segment.resume_promises();
        }
    }

    /// What other processes of this host need to read its memory directly.
    pub(crate) fn share(&self, id: SegmentId) -> Option<SharedSegment> {
        match self {
            Self::Memory(segment) => segment.share(id),
            Self::Disk(_) => None,
        }
    }
}
