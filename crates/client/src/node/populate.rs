use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

use mooncake_memory::run_only_when_idle;

use super::host::Host;

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
        segment.frontier().worked_by(std::thread::current());
    }
    while !stop.load(Ordering::Relaxed) {
        let mut steps = host.segments().iter().map(|s| s.frontier().step(s.region()));
        if !steps.any(|stepped| stepped) {
            std::thread::park();
        }
    }
}
