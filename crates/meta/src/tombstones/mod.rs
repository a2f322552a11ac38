//! Tombstones: entries that nodes may still hold of versions that were evicted, removed, replaced, revoked or given
//! up. A later leader would find them in an inventory.
//!
//! 1. An object, put or copy loses a range. Its bytes may be granted again at once, since no reader has a route to
//!    them. If a writer may still write there, or a reader does not let go, they stay [reserved] until a given time.
//! 2. The leader [names](name) the tombstone. The node fetches it with a heartbeat and drops the entry ([drops]). A
//!    client that removes or replaces the key waits for the drop before it answers. A client that reads a newer
//!    version waits for the drop before it reads.
//! 3. The tombstone is void once the node has confirmed the drop, another entry is complete in its place, or its
//!    segment is gone.
//! 4. When a reservation ends, its bytes are free and get a tombstone again, since a writer may have written there
//!    meanwhile.
//!
//! A version that was removed or replaced under a lease is a [leased] tombstone first, with its whole record.
//!
//! Invariants (`check`): every entry that a node may hold belongs to exactly one of a replica of an indexed object, a
//! running put or copy, a tombstone. The bytes that a tombstone reserves are not granted. A key is named only together
//! with its older tombstones.

mod catching_up;
mod check;
mod drops;
mod entry;
mod gather;
mod gathered;
mod keys;
mod leased;
mod leave;
mod name;
mod remnant;
mod reserve;
mod reserved;
mod retract;

use std::collections::{BTreeMap, BTreeSet};

use foldhash::fast::FixedState;
use hashbrown::HashSet;
use mooncake_types::Version;

use self::catching_up::CatchingUp;
pub(crate) use self::entry::{EntryId, Tombstone};
pub(crate) use self::gathered::DropList;
use self::keys::Keys;
use self::leased::Leased;
pub(crate) use self::leased::MOST_LEASED;
pub use self::remnant::{Remnant, RemnantCursor};
use self::reserved::Reservations;

/// All tombstones, by segment and by key.
#[derive(Debug, Default)]
pub(crate) struct Tombstones {
    /// By slot of the segment.
    by_slot: BTreeMap<u32, SlotEntries>,
    /// By the hash of the key. Keys that share a hash may have each other's tombstones dropped early, which is
    /// harmless.
    by_key: Keys,
    /// Hashes of keys that have a tombstone and a readable version newer than it.
    preceding: HashSet<u64, FixedState>,
    /// Tombstones of an older grant count as left under this grant: see [`Meta::outrank`](crate::Meta::outrank).
    named_from: Version,
    /// Tombstones that keep their own grant: puts to their ranges were under way when `named_from` was set.
    beneath: BTreeSet<(u32, EntryId)>,
    reserved: Reservations,
    leased: Leased,
    catching_up: CatchingUp,
}

#[derive(Debug, Default)]
struct SlotEntries {
    known: BTreeMap<EntryId, Tombstone>,
    /// Where the next list of drops begins, so that every tombstone gets its turn.
    next: EntryId,
}

impl Tombstones {
    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Tombstones of versions that readers may have routes to.
    pub(crate) fn leased(&self) -> &Leased {
        &self.leased
    }

    /// Memory that belongs to no object and is reserved.
    pub(crate) fn reserved(&self) -> &Reservations {
        &self.reserved
    }

    /// Number of tombstones on a segment.
    pub(crate) fn count(&self, slot: u32) -> usize {
        self.by_slot.get(&slot).map_or(0, |entries| entries.known.len())
    }

    pub(crate) fn contains(&self, slot: u32, place: EntryId) -> bool {
        self.by_slot.get(&slot).is_some_and(|entries| entries.known.contains_key(&place))
    }

    pub(crate) fn get(&self, slot: u32, place: EntryId) -> Option<Tombstone> {
        let entry = self.by_slot.get(&slot)?.known.get(&place)?;
        Some(Tombstone { grant: self.named_grant(slot, place, entry), ..*entry })
    }

    fn named_grant(&self, slot: u32, place: EntryId, entry: &Tombstone) -> Version {
        match !self.beneath.is_empty() && self.beneath.contains(&(slot, place)) {
            true => entry.grant,
            false => entry.grant.max(self.named_from),
        }
    }

    /// Adds a tombstone. Returns how many its segment has now.
    pub(crate) fn insert(&mut self, slot: u32, place: EntryId, entry: Tombstone) -> usize {
        let known = &mut self.by_slot.entry(slot).or_default().known;
        let older = known.insert(place, entry);
        let count = known.len();
        if let Some(older) = older {
            self.catching_up.note_gone(slot, older.grant);
        }
        self.by_key.insert(entry.hash, (slot, place));
        count
    }

    /// Removes a tombstone whose entry the node has dropped, unless the entry may have been written under a newer
    /// grant.
    fn confirm(&mut self, slot: u32, place: EntryId, grant: Version) {
        let Some(entries) = self.by_slot.get(&slot) else { return };
        let Some(&entry) = entries.known.get(&place) else { return };
        if self.named_grant(slot, place, &entry) <= grant {
            self.remove(slot, place);
        }
    }

    /// From now on all tombstones count as left under this grant. Those in `beneath` lie in ranges of running puts,
    /// and keep their own.
    pub(crate) fn name_again(&mut self, grant: Version, beneath: BTreeSet<(u32, EntryId)>) {
        self.named_from = grant;
        self.leased.name_again(grant);
        self.beneath.extend(beneath);
    }

    /// Keeps only those tombstones in `beneath`. Puts to the ranges of the others have ended: these count as left
    /// under `named_from`, too.
    pub(crate) fn retain_beneath(&mut self, beneath: &BTreeSet<(u32, EntryId)>) {
        self.beneath.retain(|place| beneath.contains(place));
    }

    pub(crate) fn has_some_beneath(&self) -> bool {
        !self.beneath.is_empty()
    }

    pub(crate) fn remove(&mut self, slot: u32, place: EntryId) {
        let Some(entries) = self.by_slot.get_mut(&slot) else { return };
        let Some(Tombstone { hash, grant, .. }) = entries.known.remove(&place) else { return };
        self.catching_up.note_gone(slot, grant);
        if entries.known.is_empty() {
            self.by_slot.remove(&slot);
        }
        self.forget_key(hash, slot, place);
    }

    fn forget_key(&mut self, hash: u64, slot: u32, place: EntryId) {
        self.by_key.remove(hash, (slot, place));
        if !self.preceding.is_empty() && self.of_key(hash).next().is_none() {
            self.preceding.remove(&hash);
        }
    }

    /// Voids the tombstones in a range in which an entry is now complete: the node has dropped all that overlapped it.
    /// Tombstones that this misses stay until the node confirms their drops.
    fn void(&mut self, slot: u32, offset: u64, len: u64) {
        for place in self.overlapping(slot, offset, len) {
            self.remove(slot, place);
        }
    }

    /// The tombstones that begin in this range, and the last one before it if that reaches into the range.
    pub(crate) fn overlapping(&self, slot: u32, offset: u64, len: u64) -> Vec<EntryId> {
        let Some(entries) = self.by_slot.get(&slot) else { return Vec::new() };
        let (start, end) = (place_at(offset), place_at(offset.saturating_add(len)));
        let before = entries.known.range(..start).next_back();
        let before = before.filter(|&(&(at, _), it)| at.saturating_add(it.len) > offset);
        let inside = entries.known.range(start..end).chain(before);
        inside.map(|(&place, _)| place).collect()
    }

    /// Forgets the tombstones of a segment that is gone.
    pub(crate) fn forget(&mut self, slot: u32) {
        self.catching_up.stop(slot);
        let Some(entries) = self.by_slot.remove(&slot) else { return };
        for (place, entry) in entries.known {
            self.forget_key(entry.hash, slot, place);
        }
    }

    /// Whether a key with this hash has a readable version newer than one of its tombstones.
    fn precedes(&self, hash: u64) -> bool {
        self.preceding.contains(&hash)
    }

    /// The tombstones of keys with this hash, by segment.
    pub(crate) fn of_key(&self, hash: u64) -> impl Iterator<Item = (u32, EntryId)> {
        self.by_key.of_key(hash)
    }

    /// The next tombstones of a segment, up to `limit`. Starts over after the last one.
    fn next_of(&mut self, slot: u32, limit: usize) -> Vec<(EntryId, Version)> {
        let Some(entries) = self.by_slot.get(&slot) else { return Vec::new() };
        let (next, known) = (entries.next, &entries.known);
        let behind = known.range(next..).chain(known.range(..next)).take(limit);
        let named = |(&place, entry)| (place, self.named_grant(slot, place, entry));
        let found: Vec<(EntryId, Version)> = behind.map(named).collect();
        if let (Some(&((offset, version), _)), Some(entries)) =
            (found.last(), self.by_slot.get_mut(&slot))
        {
            let counter = version.counter.saturating_add(1);
            entries.next = (offset, Version { counter, ..version });
        }
        found
    }

    /// Every tombstone, with its slot and place.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, EntryId, Tombstone)> {
        self.by_slot.iter().flat_map(|(&slot, entries)| {
            entries.known.iter().map(move |(&place, &entry)| (slot, place, entry))
        })
    }

    /// The places from an offset of a slot on, by slot and place.
    pub(crate) fn from(&self, slot: u32, offset: u64) -> impl Iterator<Item = (u32, EntryId)> {
        self.by_slot.range(slot..).flat_map(move |(&at, entries)| {
            let first = if at == slot { place_at(offset) } else { EntryId::default() };
            entries.known.range(first..).map(move |(&place, _)| (at, place))
        })
    }

    /// Whether the tombstones by key are exactly those by segment.
    pub(crate) fn is_sound(&self) -> bool {
        let mut count = 0;
        let known = self.iter().all(|(slot, place, entry)| {
            count += 1;
            self.by_key.contains(entry.hash, (slot, place))
        });
        known && count == self.by_key.len()
    }
}

/// The lowest place at an offset.
fn place_at(offset: u64) -> EntryId {
    (offset, Version::default())
}
