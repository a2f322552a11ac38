use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{Builder, JoinHandle, Thread};
use std::{fs, io};

use mooncake_memory::{Region, run_only_when_idle};

use super::host::Host;

/// Bytes that are populated beyond the furthest range that a writer took.
const AHEAD: u64 = 256 << 20;
/// Bytes populated at a time: a whole number of pages of any size, and short enough to give way often.
const STEP: u64 = 4 << 20;
/// Memory that is left to others: a segment larger than the machine is populated as far as it is written.
const RESERVE: u64 = 512 << 20;

/// How far into a segment its writers have come, and how far its pages are there. Fresh segments are granted from the
/// front, so a window that runs ahead of the writers spares them most of the waiting for pages.
#[derive(Debug, Default)]
pub(super) struct Frontier {
    reached: AtomicU64,
    populated: AtomicU64,
    worker: OnceLock<Thread>,
}

impl Frontier {
    /// A writer took a range that ends here.
    pub(super) fn reach(&self, end: u64) {
        let before = self.reached.fetch_max(end, Ordering::Relaxed);
        if end > before && self.is_behind() {
            self.worker.get().map(Thread::unpark);
        }
    }

    fn is_behind(&self) -> bool {
        let wanted = self.reached.load(Ordering::Relaxed).saturating_add(AHEAD);
        self.populated.load(Ordering::Relaxed) < wanted
    }

    /// Populates one step of the region if the window asks for one. False if there is nothing to do for now.
    fn step(&self, region: &Region) -> bool {
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

/// A thread that has the system provide the pages of all segments shortly before they are written. Dropping it stops it.
pub(crate) struct Populating {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Populating {
    pub(crate) fn start(host: &Arc<Host>) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        if host.segments().is_empty() {
            return Ok(Self { stop, thread: None });
        }
        let (host, seen) = (Arc::clone(host), Arc::clone(&stop));
        let thread = Builder::new()
            .name("mooncake-populate".to_owned())
            .spawn(move || work(&host, &seen))?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Populating {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic there has been reported and harms nobody else.
            let _ = thread.join();
        }
    }
}

fn work(host: &Host, stop: &AtomicBool) {
    if let Err(error) = run_only_when_idle() {
        tracing::debug!(%error, "pages are provided at the priority of everybody else");
    }
    for segment in host.segments() {
        // Set once: each segment is of one host, and each host has one such thread.
        let _ = segment.frontier().worker.set(std::thread::current());
    }
    while !stop.load(Ordering::Relaxed) {
        let mut steps = host.segments().iter().map(|s| s.frontier().step(s.region()));
        if !steps.any(|stepped| stepped) {
            std::thread::park();
        }
    }
}

/// What the system could give without swapping; unknown where it does not say.
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
        let file = fs::File::from(region.descriptor().try_clone_to_owned().expect("a descriptor"));
        let stat = file.metadata().expect("a memory file has metadata");
        std::os::unix::fs::MetadataExt::blocks(&stat) * 512
    }

    #[test]
    fn every_page_is_there_and_no_byte_has_changed() {
        let region = Region::anonymous(STEP + (3 << 20)).expect("memory for a test");
        region.slice(1 << 20, 5).expect("it lies within").write_from(b"bytes");
        let frontier = Frontier::default();
        assert!(frontier.step(&region) && frontier.step(&region));
        assert!(!frontier.step(&region), "there is no more");
        assert_eq!(resident_bytes(&region), region.len());
        let mut found = [0; 5];
        region.slice(1 << 20, 5).expect("it lies within").read_into(&mut found);
        assert_eq!(&found, b"bytes");
    }

    #[test]
    fn the_window_runs_ahead_of_the_writers_and_no_further() {
        let frontier = Frontier::default();
        frontier.populated.store(AHEAD, Ordering::Relaxed);
        assert!(!frontier.is_behind());
        frontier.reach(1);
        assert!(frontier.is_behind());
        frontier.populated.store(AHEAD + STEP, Ordering::Relaxed);
        assert!(!frontier.is_behind());
    }
}
