//! Copies and moves of replicas that the master asks this node for, one object at a time.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;

use mooncake_memory::{Buffer, SliceList, spawn_unpinned};
use mooncake_transfer::Paths;
use mooncake_types::{ErrorCode, Reply, SegmentAddress, TaskOrder, Tick};

use crate::clock::Clock;
use crate::drive::{Memory, Ways};
use crate::ops::{CallError, CarryOp, MoveError, Op, Step, TaskOp};
use crate::rpc::Pool;

/// Most bytes of an object that are held at a time.
const WINDOW_BYTES: u64 = 64 << 20;

/// How long closing waits for a transfer that is under way. What is still at work then ends by itself, unreported: the
/// master gives its task up, and the nodes refuse it once their ranges are others'.
const STOP_PATIENCE: Duration = Duration::from_secs(2);

/// Carries out tasks on a thread that is started when there are any. Its ways to the nodes are its own, so that no
/// caller waits for a lane that a task is using.
pub(crate) struct Tasks {
    clock: Clock,
    pool: Pool,
    paths: Paths,
    call_ms: u64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    is_running: bool,
    /// The master has said that tasks wait since the thread last asked for one.
    is_due: bool,
    is_stopping: bool,
}

impl Tasks {
    pub(crate) fn new(clock: Clock, pool: Pool, paths: Paths, call_ms: u64) -> Self {
        let (state, changed) = (Mutex::default(), Condvar::new());
        Self { clock, pool, paths, call_ms, state, changed }
    }

    /// Tasks wait at the master.
    pub(crate) fn wake(self: &Arc<Self>) {
        let mut state = self.lock();
        state.is_due = true;
        if state.is_running || state.is_stopping {
            return;
        }
        let of_thread = Arc::clone(self);
        let name = "mooncake-tasks".to_owned();
        match spawn_unpinned(Builder::new().name(name), move || of_thread.run()) {
            Ok(_) => state.is_running = true,
            // The next answer to a ping brings another attempt.
            Err(error) => tracing::warn!(%error, "no thread for tasks"),
        }
    }

    /// Begins nothing any more, and waits a little for what is under way.
    pub(crate) fn stop(&self) {
        let mut state = self.lock();
        state.is_stopping = true;
        let running = |state: &mut State| state.is_running;
        drop(self.changed.wait_timeout_while(state, STOP_PATIENCE, running));
        self.pool.clear();
    }

    fn run(&self) {
        let _notice = PanicNotice(self);
        while self.take_due() {
            self.carry_out_all();
        }
    }

    /// Whether there is something to do; if not, the thread has to end.
    fn take_due(&self) -> bool {
        let mut state = self.lock();
        let goes_on = !state.is_stopping && std::mem::take(&mut state.is_due);
        if !goes_on {
            state.is_running = false;
            self.changed.notify_all();
        }
        goes_on
    }

    /// Fetches tasks until there are none left.
    fn carry_out_all(&self) {
        while !self.is_stopping() {
            let mut fetch = TaskOp::fetch();
            self.ways().drive(&mut fetch, &mut Window::default());
            match fetch.finish() {
                Ok(fetched) if fetched.orders.is_empty() => return,
                Ok(fetched) => {
                    for order in &fetched.orders {
                        self.carry_out(order, &fetched.segments);
                    }
                }
                Err(code) => {
                    tracing::warn!(%code, "no tasks could be fetched");
                    return;
                }
            }
        }
    }

    fn carry_out(&self, order: &TaskOrder, segments: &[SegmentAddress]) {
        let carry = CarryOp::new(order, segments.to_vec(), WINDOW_BYTES);
        let mut stoppable = Stoppable { carry, tasks: self };
        let len = order.len.min(WINDOW_BYTES) as usize;
        let mut window = Window { buffer: None, len };
        self.ways().drive(&mut stoppable, &mut window);
        match stoppable.finish() {
            Ok(()) => tracing::debug!(task = %order.id, "a task has ended"),
            Err(code) => tracing::warn!(task = %order.id, %code, "a task has failed"),
        }
    }

    fn ways(&self) -> Ways<'_> {
        let Self { clock, pool, paths, call_ms, .. } = self;
        Ways { clock, pool, paths, call_ms: *call_ms, metrics: None, heartbeat: None }
    }

    fn is_stopping(&self) -> bool {
        self.lock().is_stopping
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says that the thread is gone if it panicked, so that another may be started and nobody waits for it.
struct PanicNotice<'t>(&'t Tasks);

impl Drop for PanicNotice<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().is_running = false;
            self.0.changed.notify_all();
        }
    }
}

/// A task that is given up when its node leaves.
struct Stoppable<'a, 't> {
    carry: CarryOp<'a>,
    tasks: &'t Tasks,
}

impl<'a> Op<'a> for Stoppable<'a, '_> {
    type Output = Result<(), ErrorCode>;

    fn batch(&self) -> u64 {
        self.carry.batch()
    }

    fn next(&mut self, now: Tick) -> Step<'a> {
        if self.tasks.is_stopping() {
            self.carry.cancel();
        }
        self.carry.next(now)
    }

    fn on_reply(&mut self, now: Tick, reply: Result<Reply, CallError>) {
        self.carry.on_reply(now, reply);
    }

    fn on_transfer(&mut self, results: Vec<Result<(), MoveError>>) {
        self.carry.on_transfer(results);
    }

    fn finish(self) -> Self::Output {
        self.carry.finish()
    }
}

/// Memory for the part of an object that is under way, made when it is first needed.
#[derive(Default)]
struct Window {
    buffer: Option<Buffer>,
    len: usize,
}

impl Memory for Window {
    fn part(&mut self, _: usize, at: u64, len: u64, _: u64) -> Option<SliceList> {
        let buffer = self.buffer.get_or_insert_with(|| Buffer::zeroed(self.len));
        Some(SliceList::from(buffer.raw()).part(at, len))
    }
}
