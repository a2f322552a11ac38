//! The entries that an earlier process left in a named segment, until their bytes were checked.
//!
//! The file may have changed between the two processes: a flipped bit, a page that never reached the disk. So nobody
//! finds such an entry before its bytes match the checksums in its row. A reader that asks for one has it checked at
//! once; a thread checks all others.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use mooncake_types::Version;

/// The checksums that the bytes of an entry must match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeptChecksums {
    /// None were kept, so nobody can tell whether its bytes are right.
    Missing,
    /// Those of its chunks, which the ledger has.
    Chunks,
    /// Of an entry with too many chunks for a row: the [`digest`](mooncake_memory::digest) of their checksums.
    Digest(u32),
}

/// An entry whose bytes were not checked yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unchecked {
    /// The grant under which it was written. An entry with another grant came later.
    pub(super) grant: Version,
    pub(super) kept: KeptChecksums,
}

/// The unchecked entries of a segment, by offset, behind a lock.
#[derive(Debug, Default)]
pub(super) struct Inherited {
    /// How many there are, readable without the lock.
    left: AtomicU64,
    unchecked: Mutex<BTreeMap<u64, Unchecked>>,
    /// How many did not match.
    damaged: AtomicU64,
}

impl Inherited {
    pub(super) fn of(unchecked: BTreeMap<u64, Unchecked>) -> Self {
        let left = AtomicU64::new(unchecked.len() as u64);
        Self { left, unchecked: Mutex::new(unchecked), damaged: AtomicU64::new(0) }
    }

    fn unchecked(&self) -> MutexGuard<'_, BTreeMap<u64, Unchecked>> {
        self.unchecked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many entries were not checked yet.
    pub(super) fn left(&self) -> u64 {
        self.left.load(Ordering::Acquire)
    }

    /// The entry that starts here, if it was not checked yet.
    pub(super) fn find(&self, offset: u64) -> Option<Unchecked> {
        if self.left() == 0 {
            return None;
        }
        self.unchecked().get(&offset).copied()
    }

    /// Any entry that was not checked yet, with its offset.
    pub(super) fn first(&self) -> Option<(u64, Unchecked)> {
        self.unchecked().first_key_value().map(|(&offset, &entry)| (offset, entry))
    }

    /// Forgets an entry that was checked, or is gone. Everything that depends on it must hold before: from here on
    /// readers find the entry without asking.
    pub(super) fn settle(&self, offset: u64) {
        let mut unchecked = self.unchecked();
        unchecked.remove(&offset);
        self.left.store(unchecked.len() as u64, Ordering::Release);
    }

    /// How many entries did not match their checksums.
    pub(super) fn damaged(&self) -> u64 {
        self.damaged.load(Ordering::Relaxed)
    }

    pub(super) fn note_damage(&self) {
        self.damaged.fetch_add(1, Ordering::Relaxed);
    }
}
