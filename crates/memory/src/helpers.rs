use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;

use crate::process_id;
use crate::processors::{idle_processors, spawn_unpinned};

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

/// How long an idle helper waits for work before it ends.
const IDLE: Duration = Duration::from_secs(10);

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

/// The helper threads of this process. They start on first use, may run on every processor that the process may use,
/// and end after some idle time.
struct HelperPool {
    kind: &'static PoolKind,
    /// The process whose threads these are. A forked child has none of them, and the lock keeps the state that it had
    /// at the fork.
    process: u32,
    state: Mutex<PoolState>,
    /// Signalled when a job can be joined.
    posted: Condvar,
    /// Signalled when a helper has left a job.
    left: Condvar,
}

/// One kind of pool. A process has one pool of each kind.
struct PoolKind {
    name: &'static str,
    /// Most threads of the pool.
    most: usize,
    pool: AtomicPtr<HelperPool>,
}

impl PoolKind {
    const fn new(name: &'static str, most: usize) -> Self {
        Self { name, most, pool: AtomicPtr::new(std::ptr::null_mut()) }
    }
}

#[derive(Default)]
struct PoolState {
    jobs: Vec<Job>,
    last_id: u64,
    threads: usize,
    idle: usize,
}

struct Job {
    id: u64,
    work: Work,
    /// How many more helpers may join the job.
    open_places: usize,
    /// How many helpers are running the job.
    running: usize,
    panic: Option<Box<dyn Any + Send>>,
}

/// The work of a job. It is called only while the posting call waits, see [`Posted`].
#[derive(Clone, Copy)]
struct Work(*const (dyn Fn() + Sync));

// SAFETY: the target is `Sync`, and helpers call it only while the posting call waits, as `Work` demands.
unsafe impl Send for Work {}

/// A job that helpers may join. Dropping this waits for the helpers that have joined.
struct Posted<'a> {
    pool: &'a HelperPool,
    id: u64,
}

impl HelperPool {
    fn of_process(kind: &'static PoolKind) -> &'static HelperPool {
        let process = process_id();
        let known = kind.pool.load(Ordering::Acquire);
        // SAFETY: null, or a box that was leaked below and is never freed.
        if let Some(pool) = unsafe { known.as_ref() }.filter(|pool| pool.process == process) {
            return pool;
        }
        let fresh = Box::into_raw(Box::new(HelperPool::new(kind, process)));
        // `known` belongs to the parent process. Its lock may be held as of the fork, so it stays leaked.
        match kind.pool.compare_exchange(known, fresh, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: leaked above, and never freed.
            Ok(_) => unsafe { &*fresh },
            Err(other) => {
                // SAFETY: `fresh` was made above and never shared. `other` was leaked by a thread of this process,
                // since only threads of one process race here.
                unsafe {
                    drop(Box::from_raw(fresh));
                    &*other
                }
            }
        }
    }

    fn new(kind: &'static PoolKind, process: u32) -> Self {
        let (posted, left) = (Condvar::new(), Condvar::new());
        Self { kind, process, state: Mutex::default(), posted, left }
    }

    /// Runs `work` on this thread, and at the same time on up to `helpers` others.
    fn work(&'static self, helpers: usize, work: &(dyn Fn() + Sync)) {
        let posted = self.post(helpers, work);
        work();
        if let Some(panic) = posted.close() {
            resume_unwind(panic);
        }
    }

    fn post(&'static self, helpers: usize, work: &(dyn Fn() + Sync)) -> Posted<'static> {
        // SAFETY: only the lifetime changes. `Posted` ensures that no helper calls `work` after this borrow ends.
        let work = Work(unsafe {
            std::mem::transmute::<*const (dyn Fn() + Sync), *const (dyn Fn() + Sync)>(work)
        });
        let mut state = self.lock();
        state.last_id += 1;
        let id = state.last_id;
        state.jobs.push(Job { id, work, open_places: helpers, running: 0, panic: None });
        let missing = helpers.saturating_sub(state.idle).min(self.kind.most - state.threads);
        state.threads += missing;
        drop(state);
        for _ in missing..helpers {
            self.posted.notify_one();
        }
        for _ in 0..missing {
            let thread = Builder::new().name(self.kind.name.to_owned());
            // Without this thread fewer helpers join.
            if spawn_unpinned(thread, || self.attend()).is_err() {
                self.lock().threads -= 1;
            }
        }
        Posted { pool: self, id }
    }

    /// The loop of a helper thread. It ends after some idle time.
    fn attend(&self) {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.iter_mut().find(|job| job.open_places > 0) {
                job.open_places -= 1;
                job.running += 1;
                let (id, Work(work)) = (job.id, job.work);
                drop(state);
                // SAFETY: the job counts this helper as running, so the posting call waits and keeps the borrowed work
                // alive.
                let result = catch_unwind(AssertUnwindSafe(|| unsafe { (*work)() }));
                state = self.lock();
                state.leave(id, result.err());
                self.left.notify_all();
                continue;
            }
            state.idle += 1;
            let waited = self.posted.wait_timeout(state, IDLE);
            let (woken, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.idle -= 1;
            if timeout.timed_out() && !state.jobs.iter().any(|job| job.open_places > 0) {
                state.threads -= 1;
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PoolState {
    fn leave(&mut self, id: u64, panic: Option<Box<dyn Any + Send>>) {
        let job = self.jobs.iter_mut().find(|job| job.id == id);
        let job = job.expect("a job stays while a helper runs it");
        job.running -= 1;
        job.panic = job.panic.take().or(panic);
    }
}

impl Posted<'_> {
    /// Lets no further helper join, and waits for those that have joined. Returns the panic of one of them, if any.
    fn close(self) -> Option<Box<dyn Any + Send>> {
        let panic = self.finish();
        std::mem::forget(self);
        panic
    }

    fn finish(&self) -> Option<Box<dyn Any + Send>> {
        let mut state = self.pool.lock();
        loop {
            let position = state.jobs.iter().position(|job| job.id == self.id);
            let position = position.expect("only the call that posted it takes it away");
            state.jobs[position].open_places = 0;
            if state.jobs[position].running == 0 {
                return state.jobs.remove(position).panic;
            }
            state = self.pool.left.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Posted<'_> {
    /// Runs if the posting call itself panics.
    fn drop(&mut self) {
        self.finish();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::{Barrier, Mutex};
    use std::thread::{self, ThreadId};
    use std::time::Instant;

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
            who.lock().expect("nobody panics").insert(thread::current().id());
        });
        who.into_inner().expect("nobody panics")
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
