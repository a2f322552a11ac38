//! Removing, and walking over all objects page by page.

use mooncake_types::{ErrorCode, Reply, Scan, ScanAction, ScanPage, Version, limits};

use super::index::check_key;
use super::record::ObjectState;
use crate::Meta;
use crate::segments::AddressTable;
use crate::tombstones::{Gathered, MOST_LEASED};

/// Set in the cursors of pages of tombstones: the slot of a segment and an offset in it follow.
const TOMBSTONE_CURSOR: u64 = 1 << 63;

/// Slots that cursors can name: those of segments that go are used again a little later.
const MOST_SLOTS: usize = 2 * limits::MAX_SEGMENTS;

const _: () = assert!(MOST_SLOTS as u64 * limits::MAX_SEGMENT_BYTES <= TOMBSTONE_CURSOR);

impl Meta {
    pub(crate) fn remove(
        &mut self,
        key: &str,
        force: bool,
        gathered: &mut Gathered,
    ) -> Result<(), ErrorCode> {
        check_key(key)?;
        let hashed = self.index.hashed(key);
        // Also a key that is not known: a node may yet report it, and it must not come back.
        self.touch(hashed.hash);
        // The client that removed these may have died before the nodes dropped them.
        self.gather_leased(key, gathered);
        let result = match self.find_living(hashed) {
            Some(object) => self.remove_object(object, force, gathered),
            None => Err(ErrorCode::ObjectNotFound),
        };
        if result.is_ok() {
            gathered.name_again(hashed.hash);
        }
        self.gather_tombstones(hashed.hash, None, gathered);
        result
    }

    fn remove_object(
        &mut self,
        object: u32,
        force: bool,
        gathered: &mut Gathered,
    ) -> Result<(), ErrorCode> {
        if self.objects[object].state != ObjectState::Complete {
            return Err(ErrorCode::ReplicaIsNotReady);
        }
        if self.is_leased(object) && !force {
            return Err(ErrorCode::ObjectHasLease);
        }
        self.ensure_no_callers_task(object)?;
        if !force {
            self.drop_object(object);
            return Ok(());
        }
        if self.tombstones.leased().of_key(&self.objects[object].key).len() >= MOST_LEASED {
            return Err(ErrorCode::ObjectReplicaBusy);
        }
        self.gather(object, u32::MAX, gathered);
        self.leave_key(object);
        self.leave_leased_tombstone(object);
        Ok(())
    }

    pub(crate) fn scan(&mut self, scan: &Scan<'_>) -> Reply {
        if scan.cursor & TOMBSTONE_CURSOR != 0 {
            return self.scan_tombstones(scan);
        }
        let pattern = match scan.pattern.map(|pattern| self.patterns.get(pattern)).transpose() {
            Ok(pattern) => pattern,
            Err(code) => return Reply::Refused(code),
        };
        let Ok(start) = u32::try_from(scan.cursor) else {
            return Reply::Refused(ErrorCode::InvalidParams);
        };
        if scan.action != ScanAction::List {
            // What a segment reports later would have been removed too.
            self.adopt_no_more();
        }
        let limit = scan.limit.clamp(1, limits::MAX_SCAN_OBJECTS);
        let end = start.saturating_add(limit).min(self.objects.end());
        let (mut page, mut table) = (ScanPage::default(), AddressTable::default());
        let (mut next, mut listed_bytes, mut matched_bytes) = (start, 0, 0);
        let mut gathered = Gathered::default();
        while next < end
            && listed_bytes + gathered.len_bytes() < limits::MAX_SCAN_PAGE_BYTES
            && matched_bytes < limits::MAX_SCAN_MATCHED_BYTES
        {
            let object = next;
            next += 1;
            let Some(record) = self.objects.get(object) else { continue };
            // What is out of sight is not listed, but must not come back once all was removed.
            let is_met = match scan.action {
                ScanAction::List => self.is_readable(object),
                ScanAction::Remove { .. } => self.lives(object),
            };
            if !is_met {
                continue;
            }
            if let Some(pattern) = &pattern {
                matched_bytes += record.key.len();
                if !pattern.is_match(&record.key) {
                    continue;
                }
            }
            match scan.action {
                ScanAction::List => {
                    let key = record.key.to_string();
                    let located = self.locate(object, &mut table);
                    listed_bytes += key.len() + size_of_val(&*located.placements);
                    page.objects.push((key, located));
                }
                ScanAction::Remove { force } => {
                    let key = self.objects[object].key.clone();
                    let removed = self.remove(&key, force, &mut gathered);
                    page.removed += u64::from(removed.is_ok());
                }
            }
        }
        page.next_cursor = match next < self.objects.end() {
            true => Some(u64::from(next)),
            false if scan.action == ScanAction::List => None,
            false => {
                let first = self.tombstones.from(0, 0).next();
                first.and_then(|(slot, (offset, _))| tombstone_cursor(slot, offset))
            }
        };
        page.remains = Box::new(gathered.into_remains(self.now));
        page.segments = table.into_addresses();
        Reply::Scanned(page)
    }

    /// Pages of tombstones follow those of the objects of a removal: what was evicted before it met them is as gone
    /// as what it removed. Their keys are not known any more, so all are named.
    fn scan_tombstones(&mut self, scan: &Scan<'_>) -> Reply {
        if scan.action == ScanAction::List {
            return Reply::Refused(ErrorCode::InvalidParams);
        }
        let slot = (scan.cursor & !TOMBSTONE_CURSOR) / limits::MAX_SEGMENT_BYTES;
        let offset = scan.cursor % limits::MAX_SEGMENT_BYTES;
        let limit = scan.limit.clamp(1, limits::MAX_SCAN_OBJECTS) as usize;
        let (mut page, mut next_cursor) = (Vec::<(u32, (u64, Version))>::new(), None);
        for (slot, place) in self.tombstones.from(slot as u32, offset) {
            // All that lies at one place is on one page.
            let begins =
                page.last().is_none_or(|&(at, (offset, _))| (at, offset) != (slot, place.0));
            if page.len() >= limit && begins {
                next_cursor = tombstone_cursor(slot, place.0);
                break;
            }
            page.push((slot, place));
        }
        let mut gathered = Gathered::default();
        for (slot, place) in page {
            self.name_tombstone(slot, place, &mut gathered);
        }
        let remains = Box::new(gathered.into_remains(self.now));
        Reply::Scanned(ScanPage { next_cursor, remains, ..ScanPage::default() })
    }
}

/// The cursor of the page that begins with the tombstones there.
fn tombstone_cursor(slot: u32, offset: u64) -> Option<u64> {
    let is_known = (slot as usize) < MOST_SLOTS;
    is_known.then(|| TOMBSTONE_CURSOR | (u64::from(slot) * limits::MAX_SEGMENT_BYTES + offset))
}
