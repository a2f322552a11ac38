use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use std::{io, thread};

use mooncake_memory::{Watch, running_threads, spawn_unpinned};

use super::host::Host;

/// How long the thread waits while others want the processors.
const PAUSE: Duration = Duration::from_millis(2);

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
        let builder = Builder::new().name(name);
        *thread = Some(spawn_unpinned(builder, move || work(&host, &stop))?);
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

/// The thread gives way by asking, not by a low priority: while the system provides pages it holds a lock of the whole
/// address space, and a thread that has it and never gets to run would keep all others from starting threads.
fn work(host: &Host, stop: &AtomicBool) {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    while !stop.load(Ordering::Relaxed) {
        // Those who look for a message give way.
        if running_threads().is_some_and(|running| running > processors + Watch::looking()) {
            thread::park_timeout(PAUSE);
        } else if !step(host) {
            thread::park();
        }
    }
}

/// One step of work in one segment; false if there is none for now. No segment is held between steps.
fn step(host: &Host) -> bool {
    host.segments().iter().any(|segment| {
        segment.frontier().worked_by(thread::current());
        segment.frontier().step(segment.region())
    })
}
