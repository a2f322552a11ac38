//! Threads that help with a call: [`pool`] has them, and here and in [`ahead`] is what they are used for.

mod ahead;
mod pool;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

pub use ahead::{WorkAhead, with_helpers_ahead};
use pool::{HelperPool, PoolKind};

use crate::processors::idle_processors;

/// Bytes for which a further helper pays off. A helper takes about 50 us to begin, and copying this much takes several
/// times as long.
const BYTES_A_HELPER: u64 = 2 << 20;

/// Threads that copy. A few of them saturate the memory bandwidth of a machine.
static COPIERS: PoolKind = PoolKind::new("mooncake-copy", 3);

/// Threads that wait for devices. Disks are fastest with this many requests in flight.
static WAITERS: PoolKind = PoolKind::new("mooncake-wait", 15);

/// Threads that wait for peers. They are separate, so that calls to dead peers time out in parallel even when disks
/// are busy.
static DIALERS: PoolKind = PoolKind::new("mooncake-dial", 15);

/// Runs `work` on each item, and returns the results in the order of the items. `bytes` is about how much the work
/// moves. If it is much, further threads help, at most as many as there are idle processors.
///
/// # Panics
/// If `work` panics.
pub fn with_helpers<T: Sync, R: Send>(
    items: &[T],
    bytes: u64,
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let worth = usize::try_from(bytes / BYTES_A_HELPER).unwrap_or(usize::MAX).min(items.len());
    let helpers = match worth.saturating_sub(1) {
        0 => 0,
        wanted => wanted.min(COPIERS.most).min(idle_processors()),
    };
    share_out(&COPIERS, items, helpers, work)
}

/// As [`with_helpers`], for work that mostly waits for a device. One thread helps per item, up to a limit, however
/// busy the processors are.
///
/// # Panics
/// If `work` panics.
pub fn with_waiting_helpers<T: Sync, R: Send>(
    items: &[T],
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let helpers = items.len().saturating_sub(1).min(WAITERS.most);
    share_out(&WAITERS, items, helpers, work)
}

/// As [`with_waiting_helpers`], for work that waits for peers to answer.
///
/// # Panics
/// If `work` panics.
pub fn with_dialing_helpers<T: Sync, R: Send>(
    items: &[T],
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let helpers = items.len().saturating_sub(1).min(DIALERS.most);
    share_out(&DIALERS, items, helpers, work)
}

fn share_out<T: Sync, R: Send>(
    kind: &'static PoolKind,
    items: &[T],
    helpers: usize,
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    if helpers == 0 {
        return items.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let all = Mutex::new(Vec::with_capacity(items.len()));
    let take_turns = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { break };
            done.push((index, work(item)));
        }
        all.lock().unwrap_or_else(PoisonError::into_inner).extend(done);
    };
    HelperPool::of_process(kind).work(helpers, &take_turns);
    let mut all = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    all.sort_unstable_by_key(|(index, _)| *index);
    all.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::panic::catch_unwind;
    use std::sync::{Barrier, Mutex};
    use std::thread::{self, ThreadId};
    use std::time::{Duration, Instant};

    use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

    use super::*;

    /// Held by tests that need all helpers of a pool.
    static ALONE: Mutex<()> = Mutex::new(());

    #[test]
    fn results_come_in_the_order_of_the_items_whoever_does_the_work() {
        let items: Vec<usize> = (0..1000).collect();
        for helpers in 0..=COPIERS.most {
            assert_eq!(
                share_out(&COPIERS, &items, helpers, |item| item * 3),
                (0..3000).step_by(3).collect::<Vec<_>>()
            );
        }
        assert_eq!(share_out(&COPIERS, &[0; 0], 2, |item: &i32| *item), []);
        assert_eq!(with_helpers(&items, u64::MAX, |item| item + 1), (1..=1000).collect::<Vec<_>>());
    }

    /// The threads that work at the same time in one call, including the calling thread.
    fn workers(helpers: usize) -> HashSet<ThreadId> {
        let (all, who) = (Barrier::new(helpers + 1), Mutex::new(HashSet::new()));
        share_out(&COPIERS, &vec![(); helpers + 1], helpers, |()| {
            all.wait();
            who.lock().expect("no thread panics").insert(thread::current().id());
        });
        who.into_inner().expect("no thread panics")
    }

    #[test]
    fn helpers_work_at_the_same_time_and_stay_for_the_next_call() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let first = workers(COPIERS.most);
        assert_eq!(first.len(), COPIERS.most + 1);
        assert_eq!(workers(COPIERS.most), first);
    }

    #[test]
    fn a_child_has_helpers_of_its_own() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        assert_eq!(workers(2).len(), 3);
        // The child inherits a locked pool, which no thread there can unlock.
        let held = HelperPool::of_process(&COPIERS).lock();
        // SAFETY: the child uses only inherited memory, and ends without running any destructor.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let found = catch_unwind(|| workers(2).len()).unwrap_or(0);
            // SAFETY: ends the child at once, without destructors.
            unsafe { libc::_exit(i32::from(found != 3)) };
        }
        drop(held);
        let deadline = Instant::now() + Duration::from_secs(20);
        let child = Pid::from_raw(child).expect("the system makes a child");
        let status = loop {
            if let Some((_, status)) =
                waitpid(Some(child), WaitOptions::NOHANG).expect("it is ours")
            {
                break status;
            }
            if Instant::now() > deadline {
                // The child may have ended in the meantime.
                let _ = kill_process(child, Signal::KILL);
            }
            thread::yield_now();
        };
        assert_eq!(status.exit_status(), Some(0), "three threads at work");
        assert_eq!(workers(2).len(), 3, "and the parent has its own still");
    }

    #[test]
    fn few_bytes_are_moved_by_the_caller_alone() {
        let caller = thread::current().id();
        let who = with_helpers(&[(); 9], 2 * BYTES_A_HELPER - 1, |()| thread::current().id());
        assert_eq!(who, [caller; 9]);
    }

    #[test]
    fn a_panic_of_a_helper_is_that_of_the_call() {
        let panicked = std::panic::catch_unwind(|| {
            share_out(&COPIERS, &[1, 2, 3, 4], 3, |&item| assert!(item != 3, "no threes"));
        });
        assert!(panicked.is_err());
        assert_eq!(share_out(&COPIERS, &[1, 2, 3], 3, |item| item + 1), [2, 3, 4], "others go on");
    }

    #[test]
    fn what_waits_is_helped_whether_or_not_processors_are_idle() {
        let (all, items) = (Barrier::new(WAITERS.most + 1), vec![(); WAITERS.most + 1]);
        let who = with_waiting_helpers(&items, |()| {
            all.wait();
            thread::current().id()
        });
        assert_eq!(who.iter().collect::<HashSet<_>>().len(), WAITERS.most + 1);
        let caller = thread::current().id();
        assert_eq!(with_waiting_helpers(&[()], |()| thread::current().id()), [caller]);
    }
}
