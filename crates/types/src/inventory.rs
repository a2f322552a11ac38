use crate::{SegmentId, Version};

/// The outcome of a mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum MountOutcome {
    /// The segment is mounted. The node has nothing more to do.
    #[default]
    Ready = 0,
    /// The leader does not know what the segment holds and wants the whole inventory: see
    /// [`crate::Request::ReportInventory`]. It grants no range of the segment before the last page.
    WantsInventory = 1,
    /// No entry of the segment may be read. The node drops every entry and mounts the memory under a new id.
    StartEmpty = 2,
    /// The leader followed the ledger while it was a standby, and wants the changes since then: see
    /// [`crate::Request::ReportChanges`]. A node that has forgotten some of them reports the whole inventory.
    WantsChanges {
        /// The [`crate::FollowPage::cursor`] of the last page that the leader got.
        since: u64,
    } = 3,
}

/// Whether all bytes of a ledger entry are in place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum EntryState {
    /// All bytes are in place: the entry can be read.
    #[default]
    Complete = 0,
    /// A writer has begun, and may still be at work.
    Writing = 1,
}

/// One page of a segment's ledger. Over all pages, the entries are in the order of their offsets. Entries that their
/// writer gave up are not reported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InventoryPage<'a> {
    /// The segment.
    pub segment: SegmentId,
    /// The process that reports: see [`crate::MountSegment::run`].
    pub run: u64,
    /// The number of the page, from 0. Page 0 begins the inventory anew, and the node reports all entries again.
    pub page: u32,
    /// Whether this is the last page.
    pub last: bool,
    /// The entries, at most [`crate::limits::MAX_INVENTORY_PAGE_ENTRIES`].
    pub entries: Vec<InventoryEntry<'a>>,
}

/// One page of the changes in a segment's ledger since the leader, then a standby, followed it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangesPage<'a> {
    /// The segment.
    pub segment: SegmentId,
    /// The number of the page, from 0. Page 0 begins the changes anew, from the cursor that the leader asked for.
    pub page: u32,
    /// Whether this is the last page.
    pub last: bool,
    /// The entries that now lie at changed offsets; see [`crate::FollowPage::entries`].
    pub entries: Vec<InventoryEntry<'a>>,
    /// Changed offsets at which no entry starts now; see [`crate::FollowPage::gone`].
    pub gone: Vec<u64>,
}

/// One ledger entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InventoryEntry<'a> {
    /// Where the range starts in its segment, in bytes.
    pub offset: u64,
    /// Length of the range, in bytes.
    pub len: u64,
    /// The object's key.
    pub key: &'a str,
    /// The version of the object.
    pub version: Version,
    /// The grant under which the range was written; see [`crate::RangeWrite::grant`].
    pub grant: Version,
    /// Length of the whole object, in bytes.
    pub object_len: u64,
    /// Where this range's bytes begin in the object, in bytes; zero unless the object is striped.
    pub object_offset: u64,
    /// Whether all its bytes are in place.
    pub state: EntryState,
    /// The attributes that the master gave with the grant; see [`crate::Grant::attributes`].
    pub attributes: &'a [u8],
}
