use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;

use crate::process_id;
use crate::processors::spawn_unpinned;

/// How long an idle helper waits for work before it ends.
const IDLE: Duration = Duration::from_secs(10);

/// The helper threads of this process. They start on first use, may run on every processor that the process may use,
/// and end after some idle time.
pub(super) struct HelperPool {
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
pub(super) struct PoolKind {
    name: &'static str,
    /// Most threads of the pool.
    pub(super) most: usize,
    pool: AtomicPtr<HelperPool>,
}

impl PoolKind {
    pub(super) const fn new(name: &'static str, most: usize) -> Self {
        Self { name, most, pool: AtomicPtr::new(std::ptr::null_mut()) }
    }
}

#[derive(Default)]
pub(super) struct PoolState {
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
    /// How many helpers may run it at a time.
    most: usize,
    /// How many helpers are running the job.
    running: usize,
    panic: Option<Box<dyn Any + Send>>,
}

impl Job {
    fn has_place(&self) -> bool {
        self.open_places > 0 && self.running < self.most
    }
}

/// The work of a job. It is called only while the posting call waits, see [`Posted`].
#[derive(Clone, Copy)]
struct Work(*const (dyn Fn() + Sync));

// SAFETY: the target is `Sync`, and helpers call it only while the posting call waits, as `Work` demands.
unsafe impl Send for Work {}

/// A job that helpers may join. Dropping this waits for the helpers that have joined.
pub(super) struct Posted {
    pool: &'static HelperPool,
    id: u64,
}

impl HelperPool {
    pub(super) fn of_process(kind: &'static PoolKind) -> &'static HelperPool {
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
    pub(super) fn work(&'static self, helpers: usize, work: &(dyn Fn() + Sync)) {
        let posted = self.post(helpers, work);
        work();
        if let Some(panic) = posted.close() {
            resume_unwind(panic);
        }
    }

    pub(super) fn post(&'static self, helpers: usize, work: &(dyn Fn() + Sync)) -> Posted {
        // SAFETY: only the lifetime changes. `Posted` ensures that no helper calls `work` after this borrow ends.
        let work = Work(unsafe {
            std::mem::transmute::<*const (dyn Fn() + Sync), *const (dyn Fn() + Sync)>(work)
        });
        let mut state = self.lock();
        state.last_id += 1;
        let id = state.last_id;
        state.jobs.push(Job { id, work, open_places: 0, most: 0, running: 0, panic: None });
        drop(state);
        let posted = Posted { pool: self, id };
        posted.invite(helpers, helpers);
        posted
    }

    /// Lets waiting helpers look for a job, and starts new ones, which the state counts already.
    fn wake(&'static self, waiting: usize, new: usize) {
        for _ in 0..waiting {
            self.posted.notify_one();
        }
        for _ in 0..new {
            let thread = Builder::new().name(self.kind.name.to_owned());
            // Without this thread fewer helpers join.
            if spawn_unpinned(thread, || self.attend()).is_err() {
                self.lock().threads -= 1;
            }
        }
    }

    /// The loop of a helper thread. It ends after some idle time.
    fn attend(&self) {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.iter_mut().find(|job| job.has_place()) {
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
            if timeout.timed_out() && !state.jobs.iter().any(Job::has_place) {
                state.threads -= 1;
                return;
            }
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, PoolState> {
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

impl Posted {
    /// Lets `wanted` helpers join, and those that are about to leave join again. At most `most` work on the job at a
    /// time.
    pub(super) fn invite(&self, wanted: usize, most: usize) {
        let mut state = self.pool.lock();
        let job = state.jobs.iter_mut().find(|job| job.id == self.id);
        let job = job.expect("a job stays until the posting call takes it away");
        job.most = most;
        job.open_places = wanted.min(most);
        let called = job.open_places.min(most - job.running.min(most));
        let missing = called.saturating_sub(state.idle).min(self.pool.kind.most - state.threads);
        state.threads += missing;
        drop(state);
        self.pool.wake(called - missing, missing);
    }

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

impl Drop for Posted {
    /// Runs if the posting call itself panics.
    fn drop(&mut self) {
        self.finish();
    }
}
