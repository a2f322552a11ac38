//! The hot cache: copies of ranges of other hosts' nodes that were read often, in memory that all processes of a user on this
//! host share.
//!
//! A copy takes the place of the bytes, not of the question. With each read of a copy the node is asked whether it still
//! holds that version there: it is asked for one byte, in the frame in which other ranges are read. So a version that was
//! removed or replaced is never read, whatever happens to node, master or route in between.
//!
//! 1. [`HotCache::read`] copies a range out, if it is there ([`index`]), without a lock.
//! 2. What had to be read from its node is counted ([`sketch`]); if it was read often enough, it is put into a short
//!    queue. A thread reads it again, so that no caller waits and no caller's buffer is looked at later ([`filler`]).
//! 3. The thread takes the lock and puts it in, if what has to go for it was read less often ([`book`]).

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

use mooncake_memory::{MeetError, Meeting, RawSlice, Region, copy_to_caller};
use mooncake_types::RangeRead;
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

/// The memory, and what this process counts.
struct Shelf {
    region: Region,
    layout: Layout,
    hits: AtomicU64,
    misses: AtomicU64,
    hit_bytes: AtomicU64,
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

    /// Copies the range to its destination, if it is in the cache. False otherwise: what the destination holds means nothing
    /// then.
    pub(crate) fn read(&self, op: &ReadOp) -> bool {
        let is_hit = op.dst.total_len() == op.range.len && self.shelf.read(op).is_some();
        let (count, bytes) =
            if is_hit { (&self.shelf.hits, op.range.len) } else { (&self.shelf.misses, 0) };
        count.fetch_add(1, Ordering::Relaxed);
        self.shelf.hit_bytes.fetch_add(bytes, Ordering::Relaxed);
        is_hit
    }

    /// A range was read, and the node holds it.
    pub(crate) fn on_read(&self, op: &ReadOp, was_hit: bool) {
        let reads = self.shelf.sketch().count(Identity::of(&op.range).hash());
        if !was_hit && reads >= self.admission_reads {
            self.filler.fill(op);
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
        let (hits, misses, hit_bytes, admitted, refused, skipped) = Default::default();
        Ok(Self { region, layout, hits, misses, hit_bytes, admitted, refused, skipped })
    }

    fn sketch(&self) -> Sketch<'_> {
        Sketch { region: &self.region, layout: self.layout }
    }

    /// Copies a range out; `None` if it is not there, or went meanwhile.
    fn read(&self, op: &ReadOp) -> Option<()> {
        let index = Index { region: &self.region, layout: self.layout };
        let seen = index.find(&Identity::of(&op.range))?;
        let (mut link, mut at) = (seen.first, 0);
        for _ in 0..blocks_for(op.range.len) {
            let block = link.checked_sub(1).filter(|&block| block < self.layout.blocks)?;
            let len = BLOCK_BYTES.min(op.range.len - at);
            let bytes = self.region.slice(self.layout.block(block), len).ok()?;
            copy_out(bytes, op, at)?;
            at += len;
            link = self.region.word(self.layout.link(block)).load(Ordering::Relaxed);
        }
        index.still_holds(&seen).then(|| index.note_use(&seen))
    }

    /// Puts a range in.
    fn insert(&self, range: &RangeRead, bytes: RawSlice) {
        let identity = Identity::of(range);
        let reads = self.sketch().estimate(identity.hash());
        let Some(lock) = self.lock() else {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let insertion = Book::new(&self.region, self.layout).insert(&identity, bytes, reads);
        drop(lock);
        match insertion {
            Insertion::Admitted => self.admitted.fetch_add(1, Ordering::Relaxed),
            Insertion::Refused => self.refused.fetch_add(1, Ordering::Relaxed),
            Insertion::Known => 0,
        };
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
            admitted: load(&self.admitted),
            refused: load(&self.refused),
            skipped: load(&self.skipped),
        }
    }
}

/// Copies bytes to the place in an operation's destination.
fn copy_out(bytes: RawSlice, op: &ReadOp, at: u64) -> Option<()> {
    let mut from = 0;
    for piece in op.dst.sub(at, bytes.len() as u64) {
        copy_to_caller(bytes.sub(from, piece.len()), piece).ok()?;
        from += piece.len();
    }
    Some(())
}
