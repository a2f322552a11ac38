//! How far the pages of a segment are populated.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::Thread;
use std::{fs, io};

use mooncake_memory::Region;

/// Bytes to populate beyond the furthest range that a writer took.
const AHEAD: u64 = 256 << 20;
/// Bytes to populate in one step: a multiple of the page sizes of memory files, and short enough for the thread to
/// yield often.
const STEP: u64 = 2 << 20;
/// Memory to leave to others: the pages of a segment larger than the machine are provided as they are first written.
const RESERVE: u64 = 512 << 20;

/// How far into a segment its writers have come, and how far its pages are populated. Masters grant a fresh segment
/// from the front, so a window ahead of the writers spares them most of the waiting for pages.
#[derive(Debug, Default)]
pub(crate) struct PrefaultWindow {
    reached: AtomicU64,
    populated: AtomicU64,
    worker: OnceLock<Thread>,
}

impl PrefaultWindow {
    /// A writer took a range that ends here.
    pub(crate) fn reach(&self, end: u64) {
        let before = self.reached.fetch_max(end, Ordering::Relaxed);
        if end > before && self.is_behind() {
            self.worker.get().map(Thread::unpark);
        }
    }

    /// Sets the thread to wake when pages are wanted. Only the first call counts: a segment has one host, and a host
    /// one such thread.
    pub(crate) fn set_worker(&self, worker: Thread) {
        let _ = self.worker.set(worker);
    }

    fn is_behind(&self) -> bool {
        let wanted = self.reached.load(Ordering::Relaxed).saturating_add(AHEAD);
        self.populated.load(Ordering::Relaxed) < wanted
    }

    /// Populates one step of the region if the window wants it. False if there is nothing to do for now.
    pub(crate) fn step(&self, region: &Region) -> bool {
        let from = self.populated.load(Ordering::Relaxed);
        if from >= region.len() || !self.is_behind() {
            return false;
        }
        let len = STEP.min(region.len() - from);
        let room = available_bytes().is_none_or(|bytes| bytes > RESERVE);
        match if room { region.populate(from, len) } else { Err(io::ErrorKind::OutOfMemory.into()) }
        {
            Ok(()) => self.populated.store(from + len, Ordering::Relaxed),
            Err(error) => {
                tracing::info!(%error, from, "from here on pages are provided when they are first written");
                self.populated.store(u64::MAX, Ordering::Relaxed);
            }
        }
        true
    }
}

/// Bytes that the system can give without swapping; `None` if it does not say.
fn available_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("MemAvailable:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resident_bytes(region: &Region) -> u64 {
        let descriptor = region.descriptor().expect("a region of its own has one");
        let file = fs::File::from(descriptor.try_clone_to_owned().expect("a descriptor"));
        let stat = file.metadata().expect("a memory file has metadata");
        std::os::unix::fs::MetadataExt::blocks(&stat) * 512
    }

    #[test]
    fn every_page_is_there_and_no_byte_has_changed() {
        let region = Region::anonymous(STEP + (1 << 20)).expect("memory for a test");
        region.slice(1 << 20, 5).expect("it lies within").write_from(b"bytes");
        let window = PrefaultWindow::default();
        assert!(window.step(&region) && window.step(&region));
        assert!(!window.step(&region), "there is no more");
        assert_eq!(resident_bytes(&region), region.len());
        let mut found = [0; 5];
        region.slice(1 << 20, 5).expect("it lies within").read_into(&mut found);
        assert_eq!(&found, b"bytes");
    }

    #[test]
    fn the_window_runs_ahead_of_the_writers_and_no_further() {
        let window = PrefaultWindow::default();
        window.populated.store(AHEAD, Ordering::Relaxed);
        assert!(!window.is_behind());
        window.reach(1);
        assert!(window.is_behind());
        window.populated.store(AHEAD + STEP, Ordering::Relaxed);
        assert!(!window.is_behind());
    }
}
