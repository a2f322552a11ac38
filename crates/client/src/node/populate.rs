use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use mooncake_memory::run_only_when_idle;

use super::host::Host;

/// A thread that has the system provide the pages of all segments shortly before they are written. It starts with the
/// first segment. Dropping this stops it.
pub(crate) struct Populating {
    host: Arc<Host>,
    stop: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Populating {
    pub(crate) fn start(host: &Arc<Host>) -> io::Result<Self> {
        let populating =
            Self { host: Arc::clone(host), stop: Arc::default(), thread: Mutex::default() };
        if !host.segments().is_empty() {
            populating.attend()?;
        }
        Ok(populating)
    }

    /// Looks after segments that were lent since the last call too.
    pub(crate) fn attend(&self) -> io::Result<()> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = &*thread {
            thread.thread().unpark();
            return Ok(());
        }
        let (host, stop) = (Arc::clone(&self.host), Arc::clone(&self.stop));
        let name = "mooncake-populate".to_owned();
        *thread = Some(Builder::new().name(name).spawn(move || work(&host, &stop))?);
        Ok(())
    }
}

impl Drop for Populating {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = thread.take() {
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
    while !stop.load(Ordering::Relaxed) {
        if !step(host) {
            std::thread::park();
        }
    }
}

/// One step of work in one segment; false if there is none for now. No segment is held between steps.
fn step(host: &Host) -> bool {
    host.segments().iter().any(|segment| {
        segment.frontier().worked_by(std::thread::current());
        segment.frontier().step(segment.region())
    })
}
