//! Nodes: a segment, its ledger, and the rules that nodes keep on their own.

use std::collections::BTreeMap;

use mooncake_types::{
    ClientId, EntryState, Epoch, InventoryEntry, InventoryPage, RangeDrop, SegmentId, Tick, Version,
};

use crate::follow::Telling;

/// The ledger's record of one range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) len: u64,
    pub(crate) key: String,
    pub(crate) version: Version,
    pub(crate) object_len: u64,
    pub(crate) object_offset: u64,
    pub(crate) complete: bool,
    pub(crate) attributes: Vec<u8>,
    pub(crate) begun: Tick,
}

/// A process that lends a segment.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) client: ClientId,
    pub(crate) segment: SegmentId,
    pub(crate) len: u64,
    pub(crate) seen: Epoch,
    /// Entries by their offsets.
    pub(crate) ledger: BTreeMap<u64, Entry>,
    /// The newest version that was begun or dropped at each offset.
    fences: BTreeMap<u64, (u64, Version)>,
    pub(crate) hears_master: bool,
    pub(crate) hears_clients: bool,
    /// The leader that has mounted the segment, and the next inventory page that it wants.
    pub(crate) mounted_under: Option<Epoch>,
    pub(crate) next_page: Option<u32>,
    /// The report of changes, if the leader asked for one.
    pub(crate) telling: Option<Telling>,
    /// Where the last page ended.
    pub(crate) reported_to: u64,
    /// The drops that are not confirmed yet.
    pub(crate) dropped: Vec<RangeDrop>,
}

impl Node {
    pub(crate) fn new(number: u128, len: u64) -> Node {
        Node {
            client: ClientId(number),
            segment: SegmentId(number),
            len,
            seen: Epoch(0),
            ledger: BTreeMap::new(),
            fences: BTreeMap::new(),
            hears_master: true,
            hears_clients: true,
            mounted_under: None,
            next_page: None,
            telling: None,
            reported_to: 0,
            dropped: Vec::new(),
        }
    }

    /// Drops all entries, and continues under a new id.
    pub(crate) fn start_empty(&mut self, number: u128) {
        self.segment = SegmentId(number);
        self.ledger.clear();
        (self.next_page, self.mounted_under, self.telling) = (None, None, None);
        self.dropped.clear();
    }

    /// Begins a write. Refuses an older leader's write, or one in a range of a newer version.
    pub(crate) fn begin(&mut self, offset: u64, entry: Entry) -> bool {
        let end = offset + entry.len;
        let newer = self
            .fences
            .range(..end)
            .any(|(&at, &(len, version))| at + len > offset && version > entry.version);
        let was_begun = self.ledger.get(&offset).is_some_and(|it| it.version == entry.version);
        if newer || was_begun || entry.version.epoch < self.seen {
            return false;
        }
        self.ledger.retain(|&at, other| at >= end || at + other.len <= offset);
        self.fences.retain(|&at, &mut (len, _)| at >= end || at + len <= offset);
        self.fences.insert(offset, (entry.len, entry.version));
        self.ledger.insert(offset, entry);
        true
    }

    /// Completes a range. Returns false if the range has a newer writer.
    pub(crate) fn complete(&mut self, offset: u64, version: Version) -> bool {
        match self.ledger.get_mut(&offset).filter(|entry| entry.version == version) {
            Some(entry) => {
                entry.complete = true;
                true
            }
            None => false,
        }
    }

    pub(crate) fn drop_entry(&mut self, offset: u64, version: Version) {
        if self.ledger.get(&offset).is_some_and(|entry| entry.version == version) {
            self.ledger.remove(&offset);
        }
        let fence = self.fences.entry(offset).or_insert((1, version));
        fence.1 = fence.1.max(version.next());
    }

    pub(crate) fn holds(&self, offset: u64, version: Version) -> bool {
        self.ledger.get(&offset).is_some_and(|entry| entry.complete && entry.version == version)
    }

    /// The next page of the inventory.
    pub(crate) fn page(&self, page: u32, most: usize) -> InventoryPage<'_> {
        let entry = |(&offset, entry): (&u64, &'_ Entry)| -> InventoryEntry<'_> {
            InventoryEntry {
                offset,
                len: entry.len,
                key: self.ledger[&offset].key.as_str(),
                version: entry.version,
                grant: entry.version,
                object_len: entry.object_len,
                object_offset: entry.object_offset,
                state: if entry.complete { EntryState::Complete } else { EntryState::Writing },
                attributes: &self.ledger[&offset].attributes,
            }
        };
        let from = if page == 0 { 0 } else { self.reported_to };
        let mut rest = self.ledger.range(from..);
        let entries: Vec<_> = rest.by_ref().take(most).map(entry).collect();
        let last = rest.next().is_none();
        InventoryPage { segment: self.segment, run: 1, page, last, entries }
    }
}

/// The version after this one, so that a fence at it refuses this one too.
trait Next {
    fn next(self) -> Self;
}

impl Next for Version {
    fn next(self) -> Version {
        Version { counter: self.counter + 1, ..self }
    }
}
