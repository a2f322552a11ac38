use crate::{SegmentId, Version};

/// What became of a mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum MountOutcome {
    /// The segment is mounted. There is nothing more to do.
    #[default]
    Ready = 0,
    /// The leader does not know what the segment holds and wants the whole inventory: see
    /// [`crate::Request::ReportInventory`]. It grants no range of the segment before the last page.
    WantsInventory = 1,
    /// What the segment holds must not be read any more: the node drops every entry, and mounts the memory under a new id.
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
    /// They are: it can be read.
    #[default]
    Complete = 0,
    /// A writer has begun and may still be at work.
    Writing = 1,
}

/// One page of what a segment's ledger holds, in the order of the offsets over all pages. An entry whose writer gave it
/// up is not reported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InventoryPage<'a> {
    /// The segment.
    pub segment: SegmentId,
    /// Which process tells it: see [`crate::MountSegment::run`].
    pub run: u64,
    /// The number of the page, from 0. Page 0 begins the inventory anew; what was reported before is reported again.
    pub page: u32,
    /// No page follows.
    pub last: bool,
    /// The entries, at most [`crate::limits::MAX_INVENTORY_PAGE_ENTRIES`].
    pub entries: Vec<InventoryEntry<'a>>,
}

/// One page of what changed in a segment's ledger since the leader followed it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangesPage<'a> {
    /// The segment.
    pub segment: SegmentId,
    /// The number of the page, from 0. Page 0 begins anew with what the leader asked for.
    pub page: u32,
    /// No page follows.
    pub last: bool,
    /// What lies there; see [`crate::FollowPage::entries`].
    pub entries: Vec<InventoryEntry<'a>>,
    /// Where nothing lies any more; see [`crate::FollowPage::gone`].
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
    /// What the range was written under; see [`crate::RangeWrite::grant`].
    pub grant: Version,
    /// Length of the whole object, in bytes.
    pub object_len: u64,
    /// Where this range's bytes lie in the object, in bytes; zero unless the object is striped.
    pub object_offset: u64,
    /// Whether all its bytes are in place.
    pub state: EntryState,
    /// What the master gave with the grant; see [`crate::Grant::attributes`].
    pub attributes: &'a [u8],
}
