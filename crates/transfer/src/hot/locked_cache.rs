//! Changes of the cache by the process that holds the lock: it inserts entries, and frees room.
//!
//! The process may die at any moment. It makes its changes while [`header::CHANGING`] is set. The next process that
//! takes the lock and finds it set empties the cache. The bytes of a new entry are copied before that, into free
//! blocks: a process that dies during the copy, which takes most of the time, leaves the cache whole.
//! Other processes write this memory, so numbers in it may be wrong. An invalid link empties the cache too.

use std::sync::atomic::{Ordering, fence};

use mooncake_memory::{RawSlice, Region};

use super::index::{Identity, Index};
use super::layout::{BLOCK_BYTES, Layout, blocks_for, header, slot};
use super::sketch::Sketch;

/// Most entries that the clock hand visits for one new entry.
const MOST_LOOKS: usize = 4096;

/// The outcome of an insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Insertion {
    Admitted,
    /// It was there already.
    Known,
    /// The entries that would have to go were read as often, or there is no room for it at all.
    Refused,
}

/// The memory of the cache is inconsistent.
#[derive(Debug)]
struct Damaged;

/// The cache, for the process that has the lock.
pub(super) struct LockedCache<'m> {
    region: &'m Region,
    layout: Layout,
    index: Index<'m>,
}

impl<'m> LockedCache<'m> {
    /// The caller must hold the lock.
    pub(super) fn new(region: &'m Region, layout: Layout) -> Self {
        let cache = Self { region, layout, index: Index { region, layout } };
        if cache.get(header::CHANGING) != 0 {
            tracing::info!("a process died while it changed the hot cache, which is empty now");
            cache.clear();
        }
        cache
    }

    /// Inserts an entry, if it was read more often than those that have to go.
    pub(super) fn insert(&self, identity: &Identity, bytes: RawSlice, reads: u8) -> Insertion {
        if bytes.is_empty() || bytes.len() as u64 != identity.len() {
            return Insertion::Refused;
        }
        self.sketch().age();
        if self.index.find(identity).is_some() {
            return Insertion::Known;
        }
        self.try_insert(identity, bytes, reads).unwrap_or_else(|Damaged| {
            tracing::warn!("what the hot cache says of itself makes no sense: it is empty now");
            self.clear();
            Insertion::Refused
        })
    }

    fn try_insert(
        &self,
        identity: &Identity,
        bytes: RawSlice,
        reads: u8,
    ) -> Result<Insertion, Damaged> {
        let needed = blocks_for(identity.len());
        let Some(victims) = self.victims(needed, reads)? else { return Ok(Insertion::Refused) };
        self.change(|| victims.iter().try_for_each(|&victim| self.evict(victim)))?;
        let Some(slot) = self.index.free_slot(identity) else { return Ok(Insertion::Refused) };
        let blocks = self.free_blocks(needed)?;
        let parts = (0..bytes.len()).step_by(BLOCK_BYTES as usize);
        for (from, &block) in parts.zip(&blocks) {
            let part = bytes.sub(from, (BLOCK_BYTES as usize).min(bytes.len() - from));
            part.copy_to(self.block(block, part.len() as u64)?);
        }
        self.change(|| {
            self.take(&blocks)?;
            self.index.set(slot, Some((identity, blocks[0] + 1)));
            self.append(slot)
        })?;
        Ok(Insertion::Admitted)
    }

    /// Makes a change while [`header::CHANGING`] is set, which stays set if the process dies.
    fn change(&self, change: impl FnOnce() -> Result<(), Damaged>) -> Result<(), Damaged> {
        self.region.word(header::CHANGING).store(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        change()?;
        self.region.word(header::CHANGING).store(0, Ordering::SeqCst);
        Ok(())
    }

    /// Empties the cache. Readers notice by the counts of the slots.
    fn clear(&self) {
        self.set(header::CHANGING, 1);
        for slot in 0..self.layout.slots() {
            let count = self.index.word(slot, slot::COUNT).load(Ordering::Relaxed);
            if !self.index.is_free(slot) || !count.is_multiple_of(2) {
                self.index.set(slot, None);
            }
        }
        for word in [
            header::NEWEST,
            header::OLDEST,
            header::HAND,
            header::ENTRIES,
            header::FREE,
            header::FREE_COUNT,
            header::FRESH,
            header::CHANGING,
        ] {
            self.set(word, 0);
        }
    }

    fn sketch(&self) -> Sketch<'m> {
        Sketch { region: self.region, layout: self.layout }
    }

    fn get(&self, word: usize) -> u64 {
        self.region.word(word).load(Ordering::Acquire)
    }

    /// Stores take effect in program order.
    fn set(&self, word: usize, value: u64) {
        self.region.word(word).store(value, Ordering::Release);
    }

    fn block(&self, block: u64, len: u64) -> Result<RawSlice<'m>, Damaged> {
        self.region.slice(self.layout.block(block), len).map_err(|_| Damaged)
    }
}

/// Eviction: the clock hand moves from the oldest entry to the newest, and round again. It skips an entry that was
/// read since its last visit, and clears the mark of that.
impl LockedCache<'_> {
    /// The entries to evict for so many free blocks; `None` if one of them was read as often as the new one, or too
    /// few are found.
    fn victims(&self, needed: u64, reads: u8) -> Result<Option<Vec<usize>>, Damaged> {
        let (mut victims, mut room) = (Vec::new(), self.free_count()?);
        if room >= needed {
            return Ok(Some(victims));
        }
        if needed > self.layout.blocks {
            return Ok(None);
        }
        let mut hand = self.get(header::HAND);
        for _ in 0..MOST_LOOKS {
            let Some(slot) = self.slot(hand)?.or(self.slot(self.get(header::OLDEST))?) else {
                return Ok(None);
            };
            hand = self.index.word(slot, slot::NEWER).load(Ordering::Relaxed);
            self.set(header::HAND, hand);
            if self.index.word(slot, slot::USED).swap(0, Ordering::Relaxed) != 0 {
                continue;
            }
            let identity = self.index.identity(slot);
            if victims.contains(&slot) || self.sketch().estimate(identity.hash()) >= reads {
                return Ok(None);
            }
            victims.push(slot);
            room += blocks_for(identity.len());
            if room >= needed {
                return Ok(Some(victims));
            }
        }
        Ok(None)
    }

    fn evict(&self, slot: usize) -> Result<(), Damaged> {
        let len = self.index.identity(slot).len();
        let first = self.index.word(slot, slot::FIRST).load(Ordering::Relaxed);
        // From here on, readers reject what they copy from these blocks.
        self.index.set(slot, None);
        self.unlink(slot)?;
        self.give_back(first, blocks_for(len))
    }

    fn append(&self, slot: usize) -> Result<(), Damaged> {
        let newest = self.get(header::NEWEST);
        self.set_link(slot, slot::OLDER, newest);
        self.set_link(slot, slot::NEWER, 0);
        match self.slot(newest)? {
            Some(newest) => self.set_link(newest, slot::NEWER, slot as u64 + 1),
            None => self.set(header::OLDEST, slot as u64 + 1),
        }
        self.set(header::NEWEST, slot as u64 + 1);
        self.set(header::ENTRIES, self.get(header::ENTRIES).saturating_add(1));
        Ok(())
    }

    fn unlink(&self, slot: usize) -> Result<(), Damaged> {
        let link = |word| self.index.word(slot, word).load(Ordering::Relaxed);
        let (older, newer) = (link(slot::OLDER), link(slot::NEWER));
        match self.slot(older)? {
            Some(older) => self.set_link(older, slot::NEWER, newer),
            None => self.set(header::OLDEST, newer),
        }
        match self.slot(newer)? {
            Some(newer) => self.set_link(newer, slot::OLDER, older),
            None => self.set(header::NEWEST, older),
        }
        if self.get(header::HAND) == slot as u64 + 1 {
            self.set(header::HAND, newer);
        }
        self.set(header::ENTRIES, self.get(header::ENTRIES).saturating_sub(1));
        Ok(())
    }

    fn set_link(&self, slot: usize, word: usize, link: u64) {
        self.index.word(slot, word).store(link, Ordering::Release);
    }

    /// The slot that a link leads to.
    fn slot(&self, link: u64) -> Result<Option<usize>, Damaged> {
        match link.checked_sub(1) {
            Some(slot) if slot >= self.layout.slots() as u64 => Err(Damaged),
            slot => Ok(slot.map(|slot| slot as usize)),
        }
    }
}

/// Free blocks: a list of blocks that were used before, and all blocks from the first never used one on.
impl LockedCache<'_> {
    fn free_count(&self) -> Result<u64, Damaged> {
        let (listed, fresh) = (self.get(header::FREE_COUNT), self.get(header::FRESH));
        let unused = self.layout.blocks.checked_sub(fresh).ok_or(Damaged)?;
        let free = listed.checked_add(unused).filter(|&free| free <= self.layout.blocks);
        free.ok_or(Damaged)
    }

    /// The first free blocks. They stay free.
    fn free_blocks(&self, count: u64) -> Result<Vec<u64>, Damaged> {
        let mut blocks = Vec::with_capacity(count as usize);
        let mut link = self.get(header::FREE);
        while (blocks.len() as u64) < count.min(self.get(header::FREE_COUNT)) {
            let block = link.checked_sub(1).filter(|&block| block < self.layout.blocks);
            let block = block.ok_or(Damaged)?;
            blocks.push(block);
            link = self.get(self.layout.link(block));
        }
        let fresh = self.get(header::FRESH);
        let end = fresh.checked_add(count - blocks.len() as u64);
        let end = end.filter(|&end| end <= self.layout.blocks).ok_or(Damaged)?;
        blocks.extend(fresh..end);
        Ok(blocks)
    }

    /// Takes these blocks, which are the first free ones, and links them.
    fn take(&self, blocks: &[u64]) -> Result<(), Damaged> {
        let listed = self.get(header::FREE_COUNT).min(blocks.len() as u64);
        if listed > 0 {
            let last = blocks[listed as usize - 1];
            self.set(header::FREE, self.get(self.layout.link(last)));
            self.set(header::FREE_COUNT, self.get(header::FREE_COUNT) - listed);
        }
        let fresh = self.get(header::FRESH).checked_add(blocks.len() as u64 - listed);
        self.set(header::FRESH, fresh.ok_or(Damaged)?);
        let next = blocks.iter().skip(1).map(|&block| block + 1).chain([0]);
        blocks.iter().zip(next).for_each(|(&block, next)| self.set(self.layout.link(block), next));
        Ok(())
    }

    fn give_back(&self, first: u64, count: u64) -> Result<(), Damaged> {
        if !(1..=self.layout.blocks).contains(&count) {
            return Err(Damaged);
        }
        let mut last = first;
        for step in 1..=count {
            let block = last.checked_sub(1).filter(|&block| block < self.layout.blocks);
            let link = self.layout.link(block.ok_or(Damaged)?);
            match self.get(link) {
                _ if step == count => self.set(link, self.get(header::FREE)),
                next => last = next,
            }
        }
        self.set(header::FREE, first);
        self.set(header::FREE_COUNT, self.get(header::FREE_COUNT) + count);
        Ok(())
    }
}
