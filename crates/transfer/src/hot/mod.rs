//! The hot cache: copies of ranges of other hosts' nodes that were read often, in memory that all processes of a user
//! on this host share.
//!
//! A removed or replaced version is never read. A node promises for a short time not to report an entry as dropped,
//! and no removal or upsert ends before that report. So while the promise holds, a copy is used without a message.
//! Without a promise, the client asks the node for one byte of that version, in the frame that reads other ranges.
//!
//! 1. [`HotCache::read`] copies a range out, if it is there ([`index`]), without a lock.
//! 2. A range that had to be read from its node is counted ([`sketch`]). Once it was read often enough, it enters a
//!    short queue. A thread reads it again, so that no caller waits and no caller's buffer is read later
//!    ([`filler`]).
//! 3. The thread takes the lock and inserts the copy, if the entries that have to go were read less often ([`cache`]).
//!    It asks the node for its promise, and again before that ends if the copy is still read.

mod config;
mod filler;
mod index;
mod layout;
mod locked_cache;
mod read_away;
mod shared_cache;
mod sketch;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use mooncake_types::RangeRead;

use crate::{ReadOp, TcpConfig};
pub use config::{HotCacheConfig, HotCacheError};
use filler::Filler;
use index::Identity;
use shared_cache::CacheLookup;
pub use shared_cache::HotCacheCounts;
use shared_cache::SharedCache;

/// See the module.
pub struct HotCache {
    shelf: Arc<SharedCache>,
    filler: Filler,
    longest_bytes: u64,
    admission_reads: u8,
}

impl fmt::Debug for HotCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HotCache").field("counts", &self.counts()).finish_non_exhaustive()
    }
}

impl HotCache {
    /// Joins the cache of this user on this host, or creates it. `tcp` says how to reach the nodes that fill it.
    ///
    /// # Errors
    /// See [`HotCacheError`].
    pub fn open(config: &HotCacheConfig, tcp: TcpConfig) -> Result<Self, HotCacheError> {
        let shelf = Arc::new(SharedCache::open(config)?);
        let filler = Filler::new(Arc::clone(&shelf), TcpConfig { lanes_per_peer: 1, ..tcp });
        let longest_bytes = config.longest_bytes.unwrap_or(u64::MAX);
        Ok(Self { shelf, filler, longest_bytes, admission_reads: config.admission_reads.max(1) })
    }

    /// Whether the cache keeps ranges of this length.
    pub(crate) fn takes(&self, range: &RangeRead) -> bool {
        (1..=self.longest_bytes).contains(&range.len)
    }

    /// Copies the range to its destination, if it is in the cache. Otherwise the bytes of the destination are
    /// undefined.
    pub(crate) fn read(&self, op: &ReadOp) -> CacheLookup {
        let is_whole = op.dst.total_len() == op.range.len;
        let copied = if is_whole { self.shelf.read(op) } else { CacheLookup::Miss };
        let (count, bytes) = match copied {
            CacheLookup::Miss => (&self.shelf.misses, 0),
            CacheLookup::Unpromised | CacheLookup::Promised { .. } => {
                (&self.shelf.hits, op.range.len)
            }
        };
        count.fetch_add(1, Ordering::Relaxed);
        self.shelf.hit_bytes.fetch_add(bytes, Ordering::Relaxed);
        let asked = u64::from(copied == CacheLookup::Unpromised);
        self.shelf.asked.fetch_add(asked, Ordering::Relaxed);
        copied
    }

    /// Notes that a range was read, and that its node holds it.
    pub(crate) fn on_read(&self, op: &ReadOp, copied: CacheLookup) {
        let reads = self.shelf.sketch().count(Identity::of(&op.range).hash());
        match copied {
            CacheLookup::Miss if reads >= self.admission_reads => self.filler.fill(op),
            CacheLookup::Miss | CacheLookup::Promised { is_long: true } => {}
            CacheLookup::Unpromised | CacheLookup::Promised { is_long: false } => {
                self.filler.renew(op);
            }
        }
    }

    /// What this process has counted.
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
