use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use crate::foreign::take_room;
use crate::{Private, Region};

/// Words that outlive whoever writes them. Stores take effect one after the other in the order in which they are made, so
/// whenever their process ends, a prefix of them is there and nothing of the rest.
pub trait WordMemory {
    /// Their number.
    fn len_words(&self) -> usize;

    /// What a word holds.
    ///
    /// # Panics
    /// If there is no such word.
    fn load(&self, index: usize) -> u64;

    /// Changes a word.
    ///
    /// # Panics
    /// If there is no such word.
    fn store(&self, index: usize, value: u64);

    /// All stores of before come before whatever the caller does to any other memory afterwards.
    fn barrier(&self);

    /// Has the system set room aside for the first `words` words. False if it has none: then only those may be touched that
    /// it was asked for before.
    fn provide(&self, words: usize) -> bool;
}

/// The words of a file's first bytes. What is stored stays when the process dies, however it dies; the machine must live on.
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
