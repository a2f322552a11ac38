use mooncake_types::{Epoch, SegmentId, Version};

use crate::ledger::Entry;

/// What a machine tells the shell of its segment to do. When the shell returns, the effect holds for all processes:
/// the machine changes nothing that depends on it before.
///
/// Processes of this host find an entry through its **slot**, without asking the node. The next process finds it
/// through its **row**. A shell that has no slots or no rows ignores these effects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect<'a, H> {
    /// Removes a row: the next process does not find the entry that starts here.
    RemoveRow {
        /// Where the entry starts in its segment, in bytes.
        offset: u64,
    },
    /// The next process refuses this grant and all older ones. Once this is durable, so are all earlier changes of
    /// rows.
    RefuseGrants {
        /// The newest grant to refuse.
        up_to: Version,
    },
    /// Removes a slot: no other process finds the entry that starts here.
    RemoveSlot {
        /// Where the entry starts in its segment, in bytes.
        offset: u64,
    },
    /// Adds a row for an entry whose bytes are all in place, if there is room for it. If readers compute its checksums
    /// later, this comes once more, with them.
    AddRow {
        /// Where the entry starts in its segment, in bytes.
        offset: u64,
        /// The entry.
        entry: &'a Entry,
    },
    /// Adds a slot for an entry whose bytes are all in place, if there is room for it.
    AddSlot {
        /// Where the entry starts in its segment, in bytes.
        offset: u64,
        /// The entry.
        entry: &'a Entry,
    },
    /// Closes all present slots for good: no other process finds an entry through them.
    CloseSlots,
    /// Changes the id by which the next process knows the segment. Its rows were removed before.
    Rename {
        /// The new id.
        id: SegmentId,
    },
    /// The next process obeys no leader older than this.
    NoteEpoch {
        /// The epoch of the leader.
        epoch: Epoch,
    },
    /// Asks a writer or a reader in the way to stop. The shell does not wait for it.
    Interrupt(&'a H),
}
