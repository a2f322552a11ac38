//! A thread that exists only while it has something to do.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;

use mooncake_memory::spawn_unpinned;

/// Starts the thread when work is due, and ends it when none was due for a while.
pub(crate) struct Worker {
    name: &'static str,
    /// How long the thread stays idle before it ends.
    idle: Duration,
    state: Mutex<WorkerState>,
    changed: Condvar,
}

#[derive(Default)]
struct WorkerState {
    is_running: bool,
    /// Work is due that the thread has not begun.
    is_due: bool,
    is_stopping: bool,
}

impl Worker {
    pub(crate) fn new(name: &'static str, idle: Duration) -> Arc<Self> {
        let (state, changed) = (Mutex::default(), Condvar::new());
        Arc::new(Self { name, idle, state, changed })
    }

    /// Has the thread call `work`. If it is at work now, it works once more afterwards.
    pub(crate) fn wake(self: &Arc<Self>, work: impl Fn() + Send + 'static) {
        let mut state = self.lock();
        state.is_due = true;
        if state.is_running || state.is_stopping {
            self.changed.notify_all();
            return;
        }
        let of_thread = Arc::clone(self);
        let run = move || {
            let _notice = PanicNotice(&of_thread);
            while of_thread.take_due() {
                work();
            }
        };
        match spawn_unpinned(Builder::new().name(self.name.to_owned()), run) {
            Ok(_) => state.is_running = true,
            // The next call tries again.
            Err(error) => tracing::warn!(%error, thread = self.name, "a thread was not started"),
        }
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.lock().is_stopping
    }

    /// Begins no more work, and waits at most `patience` for work under way.
    pub(crate) fn stop(&self, patience: Duration) {
        let mut state = self.lock();
        state.is_stopping = true;
        self.changed.notify_all();
        let running = |state: &mut WorkerState| state.is_running;
        drop(self.changed.wait_timeout_while(state, patience, running));
    }

    /// Waits until work is due; false if the thread must end.
    fn take_due(&self) -> bool {
        let idle = |state: &mut WorkerState| !state.is_due && !state.is_stopping;
        let waited = self.changed.wait_timeout_while(self.lock(), self.idle, idle);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let goes_on = state.is_due && !state.is_stopping;
        // Set under the lock: a call that wakes it after this starts another thread.
        (state.is_running, state.is_due) = (goes_on, false);
        if !goes_on {
            self.changed.notify_all();
        }
        goes_on
    }

    fn lock(&self) -> MutexGuard<'_, WorkerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Marks the thread as ended if it panicked, so that another may be started and no thread waits for it.
struct PanicNotice<'w>(&'w Worker);

impl Drop for PanicNotice<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().is_running = false;
            self.0.changed.notify_all();
        }
    }
}
