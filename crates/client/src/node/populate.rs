use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::{fs, io};

use mooncake_memory::Region;

use super::host::Host;

/// Bytes populated at a time; a whole number of pages of any size.
const STEP: u64 = 32 << 20;
/// Memory that is left to others: a segment larger than the machine is populated as far as it is written.
const RESERVE: u64 = 512 << 20;

/// A thread that has the system provide the pages of all segments while they are in use already, so that a put does not
/// wait for them. Dropping it stops it.
pub(crate) struct Populating {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Populating {
    pub(crate) fn start(host: &Host) -> io::Result<Self> {
        let regions: Vec<Arc<Region>> =
            host.segments().iter().map(|segment| Arc::clone(segment.region())).collect();
        let stop = Arc::new(AtomicBool::new(false));
        if regions.is_empty() {
            return Ok(Self { stop, thread: None });
        }
        let seen = Arc::clone(&stop);
        let work = move || regions.iter().for_each(|region| populate(region, &seen));
        let thread = Builder::new().name("mooncake-populate".to_owned()).spawn(work)?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Populating {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported and harms nobody else.
            let _ = thread.join();
        }
    }
}

fn populate(region: &Region, stop: &AtomicBool) {
    let mut offset = 0;
    while offset < region.len() && !stop.load(Ordering::Relaxed) {
        let len = STEP.min(region.len() - offset);
        if available_bytes().is_some_and(|bytes| bytes < RESERVE + len) {
            let (done, of) = (offset, region.len());
            tracing::warn!(done, of, "too little memory is free to populate the whole segment now");
            return;
        }
        if let Err(error) = region.populate(offset, len) {
            tracing::info!(%error, "pages are provided when they are first written");
            return;
        }
        offset += len;
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
        let region = Region::anonymous(3 << 20).expect("memory for a test");
        region.slice(1 << 20, 5).expect("it lies within").write_from(b"bytes");
        assert!(resident_bytes(&region) < 1 << 20);
        populate(&region, &AtomicBool::new(false));
        assert_eq!(resident_bytes(&region), 3 << 20);
        let mut found = [0; 5];
        region.slice(1 << 20, 5).expect("it lies within").read_into(&mut found);
        assert_eq!(&found, b"bytes");
    }

    #[test]
    fn it_stops_when_told() {
        let region = Region::anonymous(1 << 20).expect("memory for a test");
        populate(&region, &AtomicBool::new(true));
        assert_eq!(resident_bytes(&region), 0);
    }
}
