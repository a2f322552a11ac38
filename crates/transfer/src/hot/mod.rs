//! The hot cache: copies of ranges of other hosts' nodes that were read often, in memory that all processes of a user on this
//! host share.
//!
//! A version that was removed or replaced is never read. For a short time a node promises not to say that it dropped an
//! entry, and until it says so no removal or upsert is over: meanwhile a copy is used without a message. Where no promise
//! holds, the node is asked for one byte of that version, in the frame in which other ranges are read.
//!
//! 1. [`HotCache::read`] copies a range out, if it is there ([`index`]), without a lock.
//! 2. What had to be read from its node is counted ([`sketch`]); if it was read often enough, it is put into a short
//!    queue. A thread reads it again, so that no caller waits and no caller's buffer is looked at later ([`filler`]).
//! 3. The thread takes the lock and puts it in, if what has to go for it was read less often ([`book`]). It asks the node for
//!    its promise, and again before that is over if the copy is still read.

mod book;
mod filler;
mod index;
mod layout;
mod sketch;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mooncake_memory::{
    MeetError, Meeting, RawSlice, Region, SliceList, copy_all_to_caller, monotonic_ns,
};
use mooncake_types::{RangeRead, limits};
use thiserror::Error;

use crate::{ReadOp, TcpConfig};
use book::{Book, Insertion};
use filler::Filler;
use index::{Identity, Index};
use layout::{BLOCK_BYTES, LEAST_BYTES, Layout, MAGIC, MOST_BYTES, blocks_for, header};
use sketch::Sketch;

/// How a hot cache is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HotCacheConfig {
    /// Its length, in bytes, with all that it needs beside the copies; zero: there is none. Where other processes of the
    /// user on this host have one already, it stays as long as it is.
    pub bytes: u64,
    /// Longest range that is kept, in bytes; nothing: any.
    pub longest_bytes: Option<u64>,
    /// How often a range must have been read lately before it is kept.
    pub admission_reads: u8,
    /// The folder in which processes find each other; nothing: `/dev/shm`, or the one for temporary files.
    pub folder: Option<PathBuf>,
}

impl Default for HotCacheConfig {
    fn default() -> Self {
        Self { bytes: 0, longest_bytes: None, admission_reads: 2, folder: None }
    }
}

/// Why there is no hot cache.
#[derive(Debug, Error)]
pub enum HotCacheError {
    /// Too small or too large.
    #[error("{bytes} bytes: it takes from {LEAST_BYTES} to {MOST_BYTES}")]
    Size {
        /// What was asked for.
        bytes: u64,
    },
    /// There is no memory to be had, or other processes of the host cannot be met.
    #[error(transparent)]
    Memory(#[from] MeetError),
}

/// What a process has counted of its hot cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HotCacheCounts {
    /// Ranges that were copied out of it.
    pub hits: u64,
    /// Ranges that were looked for in vain.
    pub misses: u64,
    /// Bytes that were copied out.
    pub hit_bytes: u64,
    /// Ranges that were copied out and of which the node was asked, since no promise of it held.
    pub asked: u64,
    /// Ranges that this process put in.
    pub admitted: u64,
    /// Ranges that were not put in, since what is there was read more often, or others kept the lock.
    pub refused: u64,
    /// Ranges that were not put in because the queue was full.
    pub skipped: u64,
}

/// See the module.
pub struct HotCache {
    shelf: Arc<Shelf>,
    filler: Filler,
    longest_bytes: u64,
    admission_reads: u8,
}

impl fmt::Debug for HotCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HotCache").field("counts", &self.counts()).finish_non_exhaustive()
    }
}

/// What the cache had of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Copied {
    /// Nothing.
    Not,
    /// A copy. Its node is to be asked whether it still holds that version.
    Unpromised,
    /// A copy of what its node holds, as it promised.
    Promised {
        /// Most of the time of the promise is left.
        is_long: bool,
    },
}

/// How long a promise holds, in nanoseconds.
const PROMISE_NS: u64 = limits::PROMISE_MS * 1_000_000;

/// The memory, and what this process counts.
struct Shelf {
    region: Region,
    layout: Layout,
    hits: AtomicU64,
    misses: AtomicU64,
    hit_bytes: AtomicU64,
    asked: AtomicU64,
    admitted: AtomicU64,
    refused: AtomicU64,
    skipped: AtomicU64,
}

impl HotCache {
    /// Shares the cache of this user on this host, or makes one. `tcp` says how nodes are reached to fill it.
    ///
    /// # Errors
    /// See [`HotCacheError`].
    pub fn open(config: &HotCacheConfig, tcp: TcpConfig) -> Result<Self, HotCacheError> {
        let shelf = Arc::new(Shelf::open(config)?);
        let filler = Filler::new(Arc::clone(&shelf), TcpConfig { lanes_per_peer: 1, ..tcp });
        let longest_bytes = config.longest_bytes.unwrap_or(u64::MAX);
        Ok(Self { shelf, filler, longest_bytes, admission_reads: config.admission_reads.max(1) })
    }

    /// Whether a range is of a length that is kept.
    pub(crate) fn takes(&self, range: &RangeRead) -> bool {
        (1..=self.longest_bytes).contains(&range.len)
    }

    /// Copies the range to its destination, if it is in the cache. What the destination holds means nothing otherwise.
    pub(crate) fn read(&self, op: &ReadOp) -> Copied {
        let is_whole = op.dst.total_len() == op.range.len;
        let copied = if is_whole { self.shelf.read(op) } else { Copied::Not };
        let (count, bytes) = match copied {
            Copied::Not => (&self.shelf.misses, 0),
            Copied::Unpromised | Copied::Promised { .. } => (&self.shelf.hits, op.range.len),
        };
        count.fetch_add(1, Ordering::Relaxed);
        self.shelf.hit_bytes.fetch_add(bytes, Ordering::Relaxed);
        let asked = u64::from(copied == Copied::Unpromised);
        self.shelf.asked.fetch_add(asked, Ordering::Relaxed);
        copied
    }

    /// A range was read, and the node holds it.
    pub(crate) fn on_read(&self, op: &ReadOp, copied: Copied) {
        let reads = self.shelf.sketch().count(Identity::of(&op.range).hash());
        match copied {
            Copied::Not if reads >= self.admission_reads => self.filler.fill(op),
            Copied::Not | Copied::Promised { is_long: true } => {}
            Copied::Unpromised | Copied::Promised { is_long: false } => self.filler.renew(op),
        }
    }

    /// What was counted.
    #[must_use]
    pub fn counts(&self) -> HotCacheCounts {
        self.shelf.counts()
    }

    /// Its length in bytes, which another process may have chosen.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.shelf.region.len()
    }
}

impl Shelf {
    fn open(config: &HotCacheConfig) -> Result<Self, HotCacheError> {
        let bytes = config.bytes;
        if Layout::of(bytes).is_none() {
            return Err(HotCacheError::Size { bytes });
        }
        let shm = PathBuf::from("/dev/shm");
        let usual = || if shm.is_dir() { shm } else { std::env::temp_dir() };
        let folder = config.folder.clone().unwrap_or_else(usual);
        let meeting = Meeting { folder: &folder, name: c"mooncake-hot-cache" };
        let is_good = |region: &Region| {
            region.word(header::MAGIC).load(Ordering::Relaxed) == MAGIC
                && Layout::of(region.len()).is_some()
        };
        let region = meeting.join(bytes, is_good)?;
        region.word(header::MAGIC).store(MAGIC, Ordering::Relaxed);
        if region.len() != bytes {
            let len = region.len();
            tracing::warn!(len, wanted = bytes, "the hot cache of this host has another length");
        }
        let layout = Layout::of(region.len()).ok_or(HotCacheError::Size { bytes })?;
        let (hits, misses, hit_bytes, asked) = Default::default();
        let (admitted, refused, skipped) = Default::default();
        Ok(Self { region, layout, hits, misses, hit_bytes, asked, admitted, refused, skipped })
    }

    fn sketch(&self) -> Sketch<'_> {
        Sketch { region: &self.region, layout: self.layout }
    }

    fn index(&self) -> Index<'_> {
        Index { region: &self.region, layout: self.layout }
    }

    fn read(&self, op: &ReadOp) -> Copied {
        let Some(promised_ns) = self.copy(op) else { return Copied::Not };
        // A longer one is none that was made here: some process writes nonsense.
        match promised_ns.checked_sub(monotonic_ns()).filter(|&left| left > 0 && left <= PROMISE_NS)
        {
            Some(left) => Copied::Promised { is_long: left > PROMISE_NS / 2 },
            None => Copied::Unpromised,
        }
    }

    /// Copies a range out, and gives until when it is promised; `None` if it is not there, or went meanwhile.
    fn copy(&self, op: &ReadOp) -> Option<u64> {
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

    /// The memory of so many bytes in the blocks that follow a link; `None` if they lead nowhere.
    fn bytes(&self, first: u64, len: u64) -> Option<SliceList> {
        let mut link = first;
        let blocks = (0..blocks_for(len)).map(|at| {
            let block = link.checked_sub(1).filter(|&block| block < self.layout.blocks)?;
            link = self.region.word(self.layout.link(block)).load(Ordering::Relaxed);
            let part = BLOCK_BYTES.min(len - at * BLOCK_BYTES);
            self.region.slice(self.layout.block(block), part).ok()
        });
        blocks.collect()
    }

    /// Nodes promised to hold these until then.
    fn promise(&self, ranges: impl Iterator<Item = RangeRead>, until_ns: u64) {
        if let Some(_lock) = self.lock() {
            ranges.for_each(|range| self.index().promise(&Identity::of(&range), until_ns));
        }
    }

    /// Puts a range in. Whether it is there now.
    fn insert(&self, range: &RangeRead, bytes: RawSlice) -> bool {
        let identity = Identity::of(range);
        let reads = self.sketch().estimate(identity.hash());
        let Some(lock) = self.lock() else {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return false;
        };
        let insertion = Book::new(&self.region, self.layout).insert(&identity, bytes, reads);
        drop(lock);
        match insertion {
            Insertion::Admitted => self.admitted.fetch_add(1, Ordering::Relaxed),
            Insertion::Refused => self.refused.fetch_add(1, Ordering::Relaxed),
            Insertion::Known => 0,
        };
        insertion != Insertion::Refused
    }

    /// Waits a little for other processes. One that is paused keeps the lock.
    fn lock(&self) -> Option<mooncake_memory::RegionLock<'_>> {
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

    fn counts(&self) -> HotCacheCounts {
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
