use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mooncake_memory::{
    RawSlice, Region, RegionLock, SharedMemoryName, SliceList, copy_all_to_caller, monotonic_ns,
};
use mooncake_types::{RangeRead, limits};

use super::config::{HotCacheConfig, HotCacheError};
use super::index::{Identity, Index};
use super::layout::{BLOCK_BYTES, Layout, MAGIC, blocks_for, header};
use super::locked_cache::{Insertion, LockedCache};
use super::sketch::Sketch;
use crate::ReadOp;

/// What a process has counted of its hot cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HotCacheCounts {
    /// Ranges that were copied out of it.
    pub hits: u64,
    /// Ranges that it did not have.
    pub misses: u64,
    /// Bytes that were copied out.
    pub hit_bytes: u64,
    /// Ranges that were copied out, but for which the node was asked, since no promise held.
    pub asked: u64,
    /// Ranges that this process put in.
    pub admitted: u64,
    /// Ranges that were not put in, because entries were read as often or another process kept the lock.
    pub refused: u64,
    /// Ranges that were not put in because the queue was full.
    pub skipped: u64,
}

/// The result of a lookup of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CacheLookup {
    /// Nothing.
    Miss,
    /// A copy, without a promise: the node must be asked whether it still holds the version.
    Unpromised,
    /// A copy, and a promise of the node to hold the version.
    Promised {
        /// Most of the time of the promise is left.
        is_long: bool,
    },
}

/// How long a promise holds, in nanoseconds.
pub(super) const PROMISE_NS: u64 = limits::PROMISE_MS * 1_000_000;

/// The shared memory of the cache, and the counters of this process.
pub(super) struct SharedCache {
    pub(super) region: Region,
    pub(super) layout: Layout,
    pub(super) hits: AtomicU64,
    pub(super) misses: AtomicU64,
    pub(super) hit_bytes: AtomicU64,
    pub(super) asked: AtomicU64,
    pub(super) admitted: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) skipped: AtomicU64,
}

impl SharedCache {
    pub(super) fn open(config: &HotCacheConfig) -> Result<Self, HotCacheError> {
        let bytes = config.bytes;
        if Layout::of(bytes).is_none() {
            return Err(HotCacheError::Size { bytes });
        }
        let shm = PathBuf::from("/dev/shm");
        let usual = || if shm.is_dir() { shm } else { std::env::temp_dir() };
        let folder = config.folder.clone().unwrap_or_else(usual);
        let shared = SharedMemoryName { folder: &folder, name: c"mooncake-hot-cache" };
        let begin = |region: &Region| region.word(header::MAGIC).store(MAGIC, Ordering::Relaxed);
        let is_good = |region: &Region| {
            region.word(header::MAGIC).load(Ordering::Relaxed) == MAGIC
                && Layout::of(region.len()).is_some()
        };
        let region = shared.join(bytes, begin, is_good)?;
        if region.len() != bytes {
            let len = region.len();
            tracing::warn!(len, wanted = bytes, "the hot cache of this host has another length");
        }
        let layout = Layout::of(region.len()).ok_or(HotCacheError::Size { bytes })?;
        let (hits, misses, hit_bytes, asked) = Default::default();
        let (admitted, refused, skipped) = Default::default();
        Ok(Self { region, layout, hits, misses, hit_bytes, asked, admitted, refused, skipped })
    }

    pub(super) fn sketch(&self) -> Sketch<'_> {
        Sketch { region: &self.region, layout: self.layout }
    }

    fn index(&self) -> Index<'_> {
        Index { region: &self.region, layout: self.layout }
    }

    pub(super) fn read(&self, op: &ReadOp) -> CacheLookup {
        let Some(promised_ns) = self.copy(op) else { return CacheLookup::Miss };
        // A faulty process wrote a promise that is longer than any node makes.
        match promised_ns.checked_sub(monotonic_ns()).filter(|&left| left > 0 && left <= PROMISE_NS)
        {
            Some(left) => CacheLookup::Promised { is_long: left > PROMISE_NS / 2 },
            None => CacheLookup::Unpromised,
        }
    }

    /// Copies a range out, and gives until when it is promised; `None` if it is not there, or went meanwhile.
    pub(super) fn copy(&self, op: &ReadOp) -> Option<u64> {
        let index = self.index();
        let seen = index.find(&Identity::of(&op.range))?;
        let promised_ns = index.promised_ns(&seen);
        let bytes = self.bytes(seen.first, op.range.len)?;
        let mut at = 0;
        for piece in op.dst.sub(0, op.range.len) {
            let len = piece.len() as u64;
            copy_all_to_caller(bytes.sub(at, len), piece).ok()?;
            at += len;
        }
        index.still_holds(&seen).then(|| index.note_use(&seen))?;
        Some(promised_ns)
    }

    /// The memory of `len` bytes in the blocks linked from `first` on; `None` if a link leads nowhere.
    fn bytes(&self, first: u64, len: u64) -> Option<SliceList<'_>> {
        let mut link = first;
        let blocks = (0..blocks_for(len)).map(|at| {
            let block = link.checked_sub(1).filter(|&block| block < self.layout.blocks)?;
            link = self.region.word(self.layout.link(block)).load(Ordering::Relaxed);
            let part = BLOCK_BYTES.min(len - at * BLOCK_BYTES);
            self.region.slice(self.layout.block(block), part).ok()
        });
        blocks.collect()
    }

    /// Notes that nodes promised to hold these ranges until then.
    pub(super) fn promise(&self, ranges: impl Iterator<Item = RangeRead>, until_ns: u64) {
        if let Some(_lock) = self.lock() {
            ranges.for_each(|range| self.index().promise(&Identity::of(&range), until_ns));
        }
    }

    /// Inserts a range, and tells whether it is there now.
    pub(super) fn insert(&self, range: &RangeRead, bytes: RawSlice) -> bool {
        let identity = Identity::of(range);
        let reads = self.sketch().estimate(identity.hash());
        let Some(lock) = self.lock() else {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return false;
        };
        let insertion = LockedCache::new(&self.region, self.layout).insert(&identity, bytes, reads);
        drop(lock);
        match insertion {
            Insertion::Admitted => self.admitted.fetch_add(1, Ordering::Relaxed),
            Insertion::Refused => self.refused.fetch_add(1, Ordering::Relaxed),
            Insertion::Known => 0,
        };
        insertion != Insertion::Refused
    }

    /// Takes the lock. Gives up after a short wait, since a paused process keeps it.
    pub(super) fn lock(&self) -> Option<RegionLock<'_>> {
        const PATIENCE: Duration = Duration::from_millis(50);
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.region.try_lock() {
                Ok(Some(lock)) => return Some(lock),
                Ok(None) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_micros(500));
                }
                Ok(None) => return None,
                Err(error) => {
                    tracing::warn!(%error, "the hot cache cannot be locked");
                    return None;
                }
            }
        }
    }

    pub(super) fn counts(&self) -> HotCacheCounts {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        HotCacheCounts {
            hits: load(&self.hits),
            misses: load(&self.misses),
            hit_bytes: load(&self.hit_bytes),
            asked: load(&self.asked),
            admitted: load(&self.admitted),
            refused: load(&self.refused),
            skipped: load(&self.skipped),
        }
    }
}
