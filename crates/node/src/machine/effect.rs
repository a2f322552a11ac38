use mooncake_types::{Epoch, SegmentId, Version};

use crate::ledger::Entry;

/// What the shell of a segment does when the machine says so. It has taken effect, for everybody, when the shell returns: the
/// machine changes nothing that depends on it before.
///
/// A **slot** is where processes of this host find an entry without asking the node; a **row** is where the next process finds
/// it. A shell that offers its entries in neither way ignores them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect<'a, H> {
    /// The next process does not find the entry that starts here.
    RemoveRow {
        /// Where the entry starts in its segment, in bytes.
        offset: u64,
    },
    /// The next process refuses this grant and all older ones. Whatever was done to rows before is durable when this is.
    RefuseGrants {
        /// The newest of them.
        up_to: Version,
    },
    /// No other process finds the entry that starts here.
    RemoveSlot {
        /// Where the entry starts in its segment, in bytes.
        offset: u64,
    },
    /// All bytes of an entry are in place: the next process finds it, if there is room to remember it.
    AddRow {
        /// Where the entry starts in its segment, in bytes.
        offset: u64,
        /// The entry.
        entry: &'a Entry,
    },
    /// All bytes of an entry are in place: other processes find it, if there is room for it.
    AddSlot {
        /// Where the entry starts in its segment, in bytes.
        offset: u64,
        /// The entry.
        entry: &'a Entry,
    },
    /// No other process finds any entry by the slots that there are, now or later.
    CloseSlots,
    /// To the next process it is this segment. Its rows were removed before.
    Rename {
        /// What it is called now.
        id: SegmentId,
    },
    /// The next process obeys no older leader.
    NoteEpoch {
        /// The leader's.
        epoch: Epoch,
    },
    /// A writer or a reader is in the way, and must leave soon. The shell does not wait for it.
    Interrupt(&'a H),
}
