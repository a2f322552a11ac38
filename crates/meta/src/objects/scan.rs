//! Scans over all objects, page by page, that list them or remove them.
//!
//! A page has two parts: the [keys](UnmatchedKeys) of the next objects, and what is done with those that the pattern
//! [matches](crate::Patterns). Between the two the state may change: a regular expression can take seconds for a few
//! keys, so a shell matches them elsewhere and serves others meanwhile. The second part therefore looks again which
//! object holds a key.

use mooncake_types::{
    ClientId, ErrorCode, Reply, Request, Scan, ScanAction, ScanPage, Tick, limits, split_tenant,
};

use super::pattern::{MatchedKeys, UnmatchedKeys};
use crate::Meta;
use crate::segments::AddressTable;
use crate::tombstones::{DropList, EntryId};

/// Set in the cursors of pages of tombstones. The lower bits hold the slot of a segment and an offset in it.
const TOMBSTONE_CURSOR: u64 = 1 << 63;

/// Most slots that cursors can name. A slot is reused soon after its segment has left the pool.
const MOST_SLOTS: usize = 2 * limits::MAX_SEGMENTS;

const _: () = assert!(MOST_SLOTS as u64 * limits::MAX_SEGMENT_BYTES <= TOMBSTONE_CURSOR);

impl Meta {
    /// Begins a page of a scan with a pattern, for a shell that matches the keys itself.
    ///
    /// # Errors
    /// The codes with which [`Meta::handle`] refuses the request.
    pub fn begin_scan(
        &mut self,
        now: Tick,
        from: ClientId,
        scan: &Scan<'_>,
    ) -> Result<UnmatchedKeys, ErrorCode> {
        self.admit(now, from, &Request::Scan(*scan))?;
        self.next_keys(scan)
    }

    /// Ends a page of a scan: lists or removes the objects whose keys matched.
    pub fn end_scan(
        &mut self,
        now: Tick,
        from: ClientId,
        scan: &Scan<'_>,
        matched: MatchedKeys,
    ) -> Reply {
        if let Err(code) = self.admit(now, from, &Request::Scan(*scan)) {
            return Reply::Refused(code);
        }
        let reply = self.answer_page(scan, matched);
        self.settle_sunk();
        reply
    }

    pub(crate) fn scan(&mut self, scan: &Scan<'_>) -> Reply {
        let matched = self.next_keys(scan).and_then(|keys| match scan.pattern {
            Some(pattern) => self.patterns.pick(pattern, keys, || true),
            None => Ok(keys.all()),
        });
        match matched {
            Ok(matched) => self.answer_page(scan, matched),
            Err(code) => Reply::Refused(code),
        }
    }

    fn answer_page(&mut self, scan: &Scan<'_>, matched: MatchedKeys) -> Reply {
        match self.is_page_written(scan, &matched) {
            true => Reply::Scanned(self.page_of(scan, matched)),
            false => Reply::Refused(ErrorCode::UnavailableInCurrentStatus),
        }
    }

    /// The keys of the objects that a page looks at.
    fn next_keys(&mut self, scan: &Scan<'_>) -> Result<UnmatchedKeys, ErrorCode> {
        let is_met = match scan.action {
            ScanAction::Remove { .. } if scan.cursor & TOMBSTONE_CURSOR != 0 => {
                return Ok(UnmatchedKeys::default());
            }
            // The removal also covers objects that segments would report later.
            ScanAction::Remove { .. } => {
                self.adopt_no_more();
                // An object out of sight is removed too: no removed object may come back.
                Self::lives
            }
            ScanAction::List => Self::is_readable,
        };
        let first = u32::try_from(scan.cursor).map_err(|_| ErrorCode::InvalidParams)?;
        let limit = scan.limit.clamp(1, limits::MAX_SCAN_OBJECTS);
        let end = first.saturating_add(limit).min(self.objects.end());
        let most_bytes = match scan.pattern {
            Some(_) => limits::MAX_SCAN_MATCHED_BYTES,
            None => limits::MAX_SCAN_PAGE_BYTES,
        };
        let mut found = UnmatchedKeys { keys: Vec::new(), next: first };
        let mut bytes = 0;
        while found.next < end && bytes < most_bytes {
            let object = found.next;
            found.next += 1;
            let Some(record) = self.objects.get(object) else { continue };
            if scan.tenant.is_none_or(|tenant| split_tenant(&record.key).0 == tenant)
                && is_met(self, object)
            {
                bytes += record.key.len();
                found.keys.push((object, record.key.clone()));
            }
        }
        Ok(found)
    }

    fn page_of(&mut self, scan: &Scan<'_>, matched: MatchedKeys) -> ScanPage {
        match scan.action {
            ScanAction::Remove { .. } if scan.cursor & TOMBSTONE_CURSOR != 0 => {
                self.tombstone_page(scan)
            }
            ScanAction::Remove { force } => self.remove_page(matched, force),
            ScanAction::List => self.list_page(scan, matched),
        }
    }

    fn list_page(&mut self, scan: &Scan<'_>, matched: MatchedKeys) -> ScanPage {
        let (mut page, mut table, mut listed_bytes) =
            (ScanPage::default(), AddressTable::default(), 0);
        let MatchedKeys { keys, mut next } = matched;
        for (met_at, key) in keys {
            if listed_bytes >= limits::MAX_SCAN_PAGE_BYTES {
                next = met_at;
                break;
            }
            let object = self.holder_now(&key, (met_at, next));
            let Some(object) = object.filter(|&object| self.is_readable(object)) else { continue };
            let located = self.locate(object, &mut table);
            listed_bytes += key.len() + size_of_val(&*located.placements);
            page.objects.push((shown_to(scan, &key).to_owned(), located));
        }
        page.next_cursor = self.cursor_at(next);
        page.segments = table.into_addresses();
        page
    }

    /// The object that holds a key which a walk met at one index. None if the walk, which goes on at `next`, has yet
    /// to meet it.
    fn holder_now(&self, key: &str, (met_at, next): (u32, u32)) -> Option<u32> {
        let is_it = |object: &u32| self.objects.get(*object).is_some_and(|it| &*it.key == key);
        let same = Some(met_at).filter(is_it).filter(|&object| self.is_readable(object));
        same.or_else(|| self.find(key).filter(|&object| object < next))
    }

    fn remove_page(&mut self, matched: MatchedKeys, force: bool) -> ScanPage {
        let (mut removed, mut gathered) = (0, DropList::default());
        let MatchedKeys { keys, mut next } = matched;
        for (met_at, key) in keys {
            if gathered.len_bytes() >= limits::MAX_SCAN_PAGE_BYTES {
                next = met_at;
                break;
            }
            removed += u64::from(self.remove(&key, force, &mut gathered).is_ok());
        }
        let first_tombstone = || self.tombstones.from(0, 0).next();
        let next_cursor =
            self.cursor_at(next).or_else(|| first_tombstone().and_then(tombstone_cursor));
        let remains = Box::new(gathered.into_remains(self.now));
        ScanPage { next_cursor, removed, remains, ..ScanPage::default() }
    }

    /// The cursor of the page of objects that begins here, if there are more.
    fn cursor_at(&self, next: u32) -> Option<u64> {
        (next < self.objects.end()).then_some(u64::from(next))
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

/// A stored key as the caller of a scan knows it.
fn shown_to<'k>(scan: &Scan<'_>, key: &'k str) -> &'k str {
    scan.tenant.map_or(key, |_| split_tenant(key).1)
}

/// The cursor of the page that begins with the tombstones at this offset.
fn tombstone_cursor((slot, (offset, _)): (u32, EntryId)) -> Option<u64> {
    let is_known = (slot as usize) < MOST_SLOTS;
    is_known.then(|| TOMBSTONE_CURSOR | (u64::from(slot) * limits::MAX_SEGMENT_BYTES + offset))
}
