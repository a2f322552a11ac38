use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, MutexGuard, PoisonError};
use std::time::Duration;

/// A [`Condvar`] that is signalled often and seldom waited for: a signal without waiters costs no system call.
/// Callers must change the awaited state under the mutex of the waiters, and signal after that.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    condvar: Condvar,
    /// Changes only under the mutex of the waiters.
    waiting: AtomicUsize,
}

impl Signal {
    /// Releases the mutex until the signal comes or `patience` is over. May return without reason.
    pub(crate) fn wait<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        patience: Duration,
    ) -> MutexGuard<'a, T> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let waited = self.condvar.wait_timeout(guard, patience);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Wakes all waiters.
    pub(crate) fn wake_all(&self) {
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.condvar.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Instant;

    use super::*;

    #[test]
    fn all_who_wait_are_woken() {
        let (signal, rung) = (Signal::default(), Mutex::new(0));
        let begun = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let mut guard = rung.lock().unwrap();
                    while *guard < 100 {
                        guard = signal.wait(guard, Duration::from_secs(60));
                    }
                });
            }
            for _ in 0..100 {
                let mut guard = rung.lock().unwrap();
                *guard += 1;
                signal.wake_all();
            }
        });
        assert!(begun.elapsed() < Duration::from_secs(30), "somebody was not woken");
    }

    #[test]
    fn patience_ends() {
        let (signal, nothing) = (Signal::default(), Mutex::new(()));
        signal.wake_all();
        drop(signal.wait(nothing.lock().unwrap(), Duration::from_millis(1)));
        assert_eq!(signal.waiting.into_inner(), 0);
    }
}
