use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use crate::foreign::take_room;
use crate::{Private, Region};

/// Words that outlive the process that writes them. Stores take effect one by one, in program order. So a process that
/// dies at any moment leaves a prefix of its stores.
pub trait WordMemory {
    /// The number of words.
    fn len_words(&self) -> usize;

    /// Reads a word.
    ///
    /// # Panics
    /// If `index` is out of bounds.
    fn load(&self, index: usize) -> u64;

    /// Writes a word.
    ///
    /// # Panics
    /// If `index` is out of bounds.
    fn store(&self, index: usize, value: u64);

    /// A barrier between all stores so far and the caller's later stores to any other memory.
    fn barrier(&self);

    /// Reserves space for the first `words` words. Returns false if there is none: then only words that were reserved
    /// before may be touched.
    fn provide(&self, words: usize) -> bool;
}

/// The first words of a file. Stores survive any death of the process, but not of the machine.
#[derive(Debug)]
pub struct MappedWords {
    region: Region,
    file: Private<OwnedFd>,
}

impl MappedWords {
    pub(super) fn new(region: Region, file: Private<OwnedFd>) -> Self {
        Self { region, file }
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        self.region.word(index)
    }
}

impl WordMemory for MappedWords {
    fn len_words(&self) -> usize {
        (self.region.len() / 8) as usize
    }

    fn load(&self, index: usize) -> u64 {
        self.word(index).load(Ordering::Acquire)
    }

    fn store(&self, index: usize, value: u64) {
        self.word(index).store(value, Ordering::Release);
    }

    fn barrier(&self) {
        fence(Ordering::SeqCst);
    }

    fn provide(&self, words: usize) -> bool {
        let len = (words as u64 * 8).min(self.region.len());
        take_room(&self.file, 0, len).is_ok()
    }
}
