//! Scans over all objects, page by page, that list them or remove them.

use mooncake_types::{ErrorCode, Reply, Scan, ScanAction, ScanPage, limits};
use regex::Regex;

use crate::Meta;
use crate::segments::AddressTable;
use crate::tombstones::{DropList, EntryId};

/// Set in the cursors of pages of tombstones. The lower bits hold the slot of a segment and an offset in it.
const TOMBSTONE_CURSOR: u64 = 1 << 63;

/// Most slots that cursors can name. A slot is reused soon after its segment has left the pool.
const MOST_SLOTS: usize = 2 * limits::MAX_SEGMENTS;

const _: () = assert!(MOST_SLOTS as u64 * limits::MAX_SEGMENT_BYTES <= TOMBSTONE_CURSOR);

impl Meta {
    pub(crate) fn scan(&mut self, scan: &Scan<'_>) -> Reply {
        let page = match scan.action {
            ScanAction::Remove { .. } if scan.cursor & TOMBSTONE_CURSOR != 0 => {
                Ok(self.tombstone_page(scan))
            }
            ScanAction::Remove { force } => {
                self.walk(scan).map(|walk| self.remove_page(walk, force))
            }
            ScanAction::List => self.walk(scan).map(|walk| self.list_page(walk)),
        };
        match page {
            Ok(page) => Reply::Scanned(page),
            Err(code) => Reply::Refused(code),
        }
    }

    /// The walk over the objects of one page.
    fn walk(&mut self, scan: &Scan<'_>) -> Result<Walk, ErrorCode> {
        let pattern = scan.pattern.map(|pattern| self.patterns.get(pattern)).transpose()?;
        let next = u32::try_from(scan.cursor).map_err(|_| ErrorCode::InvalidParams)?;
        let limit = scan.limit.clamp(1, limits::MAX_SCAN_OBJECTS);
        let end = next.saturating_add(limit).min(self.objects.end());
        Ok(Walk { pattern, next, end, matched_bytes: 0 })
    }

    fn list_page(&mut self, mut walk: Walk) -> ScanPage {
        let (mut page, mut table, mut listed_bytes) =
            (ScanPage::default(), AddressTable::default(), 0);
        while listed_bytes < limits::MAX_SCAN_PAGE_BYTES
            && let Some(object) = walk.advance(self, Self::is_readable)
        {
            let key = self.objects[object].key.to_string();
            let located = self.locate(object, &mut table);
            listed_bytes += key.len() + size_of_val(&*located.placements);
            page.objects.push((key, located));
        }
        page.next_cursor = walk.cursor(self);
        page.segments = table.into_addresses();
        page
    }

    fn remove_page(&mut self, mut walk: Walk, force: bool) -> ScanPage {
        // The removal also covers objects that segments would report later.
        self.adopt_no_more();
        let (mut removed, mut gathered) = (0, DropList::default());
        // An object out of sight is removed too: no removed object may come back.
        while gathered.len_bytes() < limits::MAX_SCAN_PAGE_BYTES
            && let Some(object) = walk.advance(self, Self::lives)
        {
            let key = self.objects[object].key.clone();
            removed += u64::from(self.remove(&key, force, &mut gathered).is_ok());
        }
        let first_tombstone = || self.tombstones.from(0, 0).next();
        let next_cursor =
            walk.cursor(self).or_else(|| first_tombstone().and_then(tombstone_cursor));
        let remains = Box::new(gathered.into_remains(self.now));
        ScanPage { next_cursor, removed, remains, ..ScanPage::default() }
    }

    /// Pages of tombstones follow the pages of objects in a removal. An object that was evicted just before the
    /// removal reached it must be as gone as a removed one. Tombstones hold no keys, so all are named.
    fn tombstone_page(&mut self, scan: &Scan<'_>) -> ScanPage {
        let slot = (scan.cursor & !TOMBSTONE_CURSOR) / limits::MAX_SEGMENT_BYTES;
        let offset = scan.cursor % limits::MAX_SEGMENT_BYTES;
        let limit = scan.limit.clamp(1, limits::MAX_SCAN_OBJECTS) as usize;
        let (mut page, mut next_cursor) = (Vec::<(u32, EntryId)>::new(), None);
        for (slot, entry) in self.tombstones.from(slot as u32, offset) {
            // A cursor names no version, so all versions at one offset are on one page.
            let begins =
                page.last().is_none_or(|&(at, (offset, _))| (at, offset) != (slot, entry.0));
            if page.len() >= limit && begins {
                next_cursor = tombstone_cursor((slot, entry));
                break;
            }
            page.push((slot, entry));
        }
        let mut gathered = DropList::default();
        for (slot, entry) in page {
            self.name_tombstone(slot, entry, &mut gathered);
        }
        let remains = Box::new(gathered.into_remains(self.now));
        ScanPage { next_cursor, remains, ..ScanPage::default() }
    }
}

/// A walk over the objects of one page, in the order of their indices.
struct Walk {
    pattern: Option<Regex>,
    next: u32,
    end: u32,
    /// Bytes of the keys that were matched against the pattern.
    matched_bytes: usize,
}

impl Walk {
    /// The next object for which `is_met` holds and whose key matches; none at the end of the page.
    fn advance(&mut self, meta: &Meta, is_met: impl Fn(&Meta, u32) -> bool) -> Option<u32> {
        while self.next < self.end && self.matched_bytes < limits::MAX_SCAN_MATCHED_BYTES {
            let object = self.next;
            self.next += 1;
            let Some(record) = meta.objects.get(object) else { continue };
            if is_met(meta, object) && self.matches(&record.key) {
                return Some(object);
            }
        }
        None
    }

    fn matches(&mut self, key: &str) -> bool {
        let Some(pattern) = &self.pattern else { return true };
        self.matched_bytes += key.len();
        pattern.is_match(key)
    }

    /// The cursor of the next page of objects, if there are more.
    fn cursor(&self, meta: &Meta) -> Option<u64> {
        (self.next < meta.objects.end()).then_some(u64::from(self.next))
    }
}

/// The cursor of the page that begins with the tombstones at this offset.
fn tombstone_cursor((slot, (offset, _)): (u32, EntryId)) -> Option<u64> {
    let is_known = (slot as usize) < MOST_SLOTS;
    is_known.then(|| TOMBSTONE_CURSOR | (u64::from(slot) * limits::MAX_SEGMENT_BYTES + offset))
}
