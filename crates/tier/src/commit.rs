//! Group commit: callers that arrive while a sync runs share the next one.

use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
pub(crate) struct Commit {
    syncs: Mutex<Syncs>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct Syncs {
    begun: u64,
    /// Number of the last sync that succeeded.
    ended: u64,
    is_running: bool,
    /// Why a sync failed.
    failure: Option<io::ErrorKind>,
}

impl Commit {
    /// Returns once a sync that began after this call has succeeded.
    ///
    /// # Errors
    /// This sync or an earlier one failed. Earlier writes may then be lost, and no later sync would report that.
    pub(crate) fn wait(&self, sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let mut syncs = self.lock();
        let wanted = syncs.begun + 1;
        while syncs.is_running && syncs.ended < wanted && syncs.failure.is_none() {
            syncs = self.ended.wait(syncs).unwrap_or_else(PoisonError::into_inner);
        }
        if let Some(kind) = syncs.failure {
            return Err(io::Error::new(kind, "an earlier sync of this file failed"));
        }
        if syncs.ended >= wanted {
            return Ok(());
        }
        (syncs.begun, syncs.is_running) = (syncs.begun + 1, true);
        let number = syncs.begun;
        drop(syncs);
        let outcome = sync();
        let mut syncs = self.lock();
        syncs.is_running = false;
        match &outcome {
            Ok(()) => syncs.ended = number,
            Err(error) => syncs.failure = Some(error.kind()),
        }
        self.ended.notify_all();
        outcome
    }

    fn lock(&self) -> MutexGuard<'_, Syncs> {
        self.syncs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn many_callers_share_few_syncs_and_each_began_after_its_call() {
        let (commit, syncs) = (Commit::default(), AtomicU64::new(0));
        let (written, synced) = (AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        let mine = written.fetch_add(1, Ordering::SeqCst) + 1;
                        let sync = || {
                            syncs.fetch_add(1, Ordering::SeqCst);
                            let all = written.load(Ordering::SeqCst);
                            thread::sleep(Duration::from_millis(1));
                            synced.fetch_max(all, Ordering::SeqCst);
                            Ok(())
                        };
                        commit.wait(sync).expect("nothing fails");
                        assert!(synced.load(Ordering::SeqCst) >= mine, "it was not waited for");
                    }
                });
            }
        });
        let syncs = syncs.into_inner();
        assert!(syncs < 200, "{syncs} for 320 calls");
    }

    #[test]
    fn after_a_failed_sync_nothing_is_acknowledged() {
        let commit = Commit::default();
        assert!(commit.wait(|| Ok(())).is_ok());
        assert!(commit.wait(|| Err(io::Error::other("no"))).is_err());
        assert!(commit.wait(|| Ok(())).is_err());
    }
}
