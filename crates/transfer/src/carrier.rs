//! The seam between [`crate::Paths`] and the ways to memory: a [`Carrier`] for each.

use std::sync::Arc;

use mooncake_calls::{Stage, around, carried};
use mooncake_memory::SliceList;
use mooncake_types::{Epoch, SegmentId};

use crate::{ReadOp, Source, TransferError, Way, WriteOp};

/// A way to the memory of nodes. Which peers it reaches, it learns when it greets them.
///
/// A call hands its operations to one carrier after the other, the preferred first. Each begins those that it
/// reaches, without waiting for bytes; then all are completed. So operations that take different ways overlap.
pub(crate) trait Carrier: Send + Sync {
    /// The stage of a call that it is.
    fn stage(&self) -> Stage;

    /// Begins those of the open operations that it reaches. They are begun or over afterwards, the others stay open
    /// for the next carrier. `None` if there is nothing to complete.
    ///
    /// May wait to find out how far a peer is, or for a connection to it. A carrier that waits for connections comes
    /// behind all that do not hold any while they wait.
    fn submit<'a>(&'a self, batch: Batch<'a>, fates: &mut [Fate]) -> Option<Box<dyn Pending + 'a>>;

    /// How it reads a segment of a node; the error says in words why it does not.
    fn examine(&self, endpoint: &Arc<str>, segment: SegmentId) -> Result<Examined, String>;
}

/// How a carrier reads a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Examined {
    /// `None` stands for a copy within this process.
    pub(crate) way: Option<Way>,
    /// More about it, in words; may be empty.
    pub(crate) how: String,
}

/// Operations that a carrier has begun.
pub(crate) trait Pending {
    /// Waits until they are over. Nothing touches their memory afterwards. Returns whether any is open again: its
    /// peer was not reached after all, and another carrier may reach it.
    fn complete(self: Box<Self>, fates: &mut [Fate]) -> bool;
}

/// The operations of one call.
#[derive(Clone, Copy)]
pub(crate) enum Batch<'a> {
    Reads(&'a [ReadOp<'a>]),
    Writes(Epoch, &'a [WriteOp<'a>]),
}

/// Where one operation of a call stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// No carrier has it.
    Open,
    /// A carrier has begun it.
    Begun,
    Over(Result<Source, TransferError>),
}

impl Fate {
    pub(crate) fn is_open(&self) -> bool {
        matches!(self, Fate::Open)
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(self, Fate::Over(_))
    }
}

impl<'a> Batch<'a> {
    pub(crate) fn endpoint(&self, position: usize) -> &'a Arc<str> {
        match self {
            Batch::Reads(ops) => &ops[position].endpoint,
            Batch::Writes(_, ops) => &ops[position].endpoint,
        }
    }

    pub(crate) fn segment(&self, position: usize) -> SegmentId {
        match self {
            Batch::Reads(ops) => ops[position].range.segment,
            Batch::Writes(_, ops) => ops[position].range.segment,
        }
    }

    /// The length of an operation's range, in bytes.
    pub(crate) fn len_bytes(&self, position: usize) -> u64 {
        match self {
            Batch::Reads(ops) => ops[position].range.len,
            Batch::Writes(_, ops) => ops[position].range.len,
        }
    }

    /// The caller's memory.
    pub(crate) fn memory(&self, position: usize) -> &'a SliceList<'a> {
        match self {
            Batch::Reads(ops) => &ops[position].dst,
            Batch::Writes(_, ops) => &ops[position].src,
        }
    }
}

/// Positions of the open operations.
pub(crate) fn open(fates: &[Fate]) -> impl Iterator<Item = usize> + Clone {
    fates.iter().enumerate().filter(|(_, fate)| fate.is_open()).map(|(position, _)| position)
}

/// Marks the open operations that are `reached` as begun, and returns their positions.
pub(crate) fn begin(fates: &mut [Fate], reached: impl Fn(usize) -> bool) -> Vec<usize> {
    let begun: Vec<usize> = open(fates).filter(|&position| reached(position)).collect();
    begun.iter().for_each(|&position| fates[position] = Fate::Begun);
    begun
}

/// Has the carriers move the open operations. Those that none of them reaches stay open.
pub(crate) fn carry(carriers: &[Arc<dyn Carrier>], batch: Batch<'_>, fates: &mut [Fate]) {
    let mut first = 0;
    while first < carriers.len() {
        let mut pending = Vec::new();
        for (number, carrier) in carriers.iter().enumerate().skip(first) {
            if !fates.iter().any(Fate::is_open) {
                break;
            }
            let begun = carrier.submit(batch, fates);
            pending.extend(begun.map(|begun| (number, begun)));
        }
        first = carriers.len();
        let is_one = pending.len() == 1;
        for (number, begun) in pending {
            let stage = carriers[number].stage();
            // The time of one alone is measured by its caller.
            let complete = || begun.complete(fates);
            let is_any_open = if is_one { complete() } else { around(stage, complete) };
            carried(stage);
            if is_any_open {
                first = first.min(number + 1);
            }
        }
    }
}
