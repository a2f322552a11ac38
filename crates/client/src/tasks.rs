//! Copies and moves of replicas that the master asks this node for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Builder};
use std::time::Duration;

use mooncake_memory::{Buffer, SliceList};
use mooncake_ops::{CarryOp, Op, TaskOp};
use mooncake_transfer::{Paths, View};
use mooncake_types::{TaskOrders, limits};

use crate::clock::Clock;
use crate::drive::{Memory, Ways};
use crate::rpc::Pool;
use crate::task_queue::{FetchedTask, TaskQueue};
use crate::worker::Worker;

/// Most bytes of objects that are held at a time.
const WINDOW_BYTES: u64 = 64 << 20;

/// Tasks that are carried out at a time: several that are written to one disk share its syncs.
const TASKS_AT_ONCE: usize = 4;
/// The same where an object store is written: what is under way together is stored together.
const MANY_TASKS_AT_ONCE: usize = 16;

/// Tasks that are fetched at a time.
const FETCHED_TASKS: u32 = 16;

/// How long a node with a disk waits at the master for tasks, in milliseconds: what is to be offloaded goes at once.
const WAIT_MS: u32 = 500;
const _: () = assert!(WAIT_MS <= limits::MAX_TASK_WAIT_MS);

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
    /// How long the master is to wait for a task, in milliseconds.
    wait_ms: u32,
    at_once: usize,
    /// The thread waits for that.
    is_waiting: AtomicBool,
    queue: TaskQueue,
    worker: Arc<Worker>,
}

impl Tasks {
    pub(crate) fn new(clock: Clock, pool: Pool, paths: Paths, call_ms: u64) -> Self {
        let worker = Worker::new("mooncake-tasks", Duration::ZERO);
        let is_waiting = AtomicBool::new(false);
        Self {
            clock,
            pool,
            paths,
            call_ms,
            wait_ms: 0,
            at_once: TASKS_AT_ONCE,
            is_waiting,
            queue: TaskQueue::default(),
            worker,
        }
    }

    /// Has the thread wait for tasks at the master once it is woken, rather than for a heartbeat that says so. It waits for half of
    /// what a call may take at most: an answer that comes too late would name tasks that this client does not carry out.
    pub(crate) fn waiting(self, call_timeout: Duration) -> Self {
        let half_ms = u32::try_from(call_timeout.as_millis() / 2).unwrap_or(u32::MAX);
        Self { wait_ms: half_ms.min(WAIT_MS), ..self }
    }

    /// Has more tasks carried out at a time.
    pub(crate) fn many_at_once(self) -> Self {
        Self { at_once: MANY_TASKS_AT_ONCE, ..self }
    }

    /// Tasks wait at the master.
    pub(crate) fn wake(self: &Arc<Self>) {
        let tasks = Arc::clone(self);
        self.worker.wake(move || tasks.carry_out_all());
    }

    /// Begins nothing any more, and waits a little for what is under way.
    pub(crate) fn stop(&self) {
        let only_waits = self.is_waiting.load(Ordering::Relaxed) && self.queue.is_idle();
        self.worker.stop(if only_waits { Duration::ZERO } else { STOP_PATIENCE });
        self.pool.clear();
    }

    /// Fetches tasks until there are none left, or for ever if it waits for them. The next ones are fetched before the last ones are
    /// done, so that a disk always has something to write.
    fn carry_out_all(&self) {
        thread::scope(|scope| {
            while let Some(fetched) = self.fetch() {
                for _ in 0..self.queue.push(fetched, self.at_once) {
                    let work = || self.queue.work(|task| self.carry_out(task));
                    let thread = Builder::new().name("mooncake-tasks".to_owned());
                    if let Err(error) = thread.spawn_scoped(scope, work) {
                        tracing::warn!(%error, "fewer tasks are carried out at a time");
                        work();
                    }
                }
                self.queue.wait_for_fewer(self.at_once);
            }
        });
    }

    /// Some tasks; none if the thread is to end.
    fn fetch(&self) -> Option<TaskOrders> {
        while !self.worker.is_stopping() {
            self.is_waiting.store(self.wait_ms > 0, Ordering::Relaxed);
            let fetch = TaskOp::fetch(FETCHED_TASKS, self.wait_ms);
            let fetched = self.ways().drive(fetch, Window::default());
            self.is_waiting.store(false, Ordering::Relaxed);
            match fetched {
                Ok(fetched) if !fetched.orders.is_empty() => return Some(fetched),
                // What ends may make room for others.
                Ok(_) if self.wait_ms == 0 && self.queue.wait_until_idle() => return None,
                Ok(_) => {}
                Err(_) if self.worker.is_stopping() => {}
                Err(code) => {
                    // When the master can be reached again, its next pong says whether there are any.
                    tracing::warn!(%code, "no tasks could be fetched");
                    return None;
                }
            }
        }
        None
    }

    fn carry_out(&self, task: &FetchedTask) {
        let (order, window_bytes) = (task.order(), WINDOW_BYTES / self.at_once as u64);
        let mut carry = CarryOp::new(order, task.fetched.segments.clone(), window_bytes);
        let mut window =
            Window { seen: None, buffer: None, len: order.len.min(window_bytes) as usize };
        // A task is given up when its node leaves.
        self.ways().run_checking(&mut carry, &mut window, |carry| {
            if self.worker.is_stopping() {
                carry.cancel();
            }
        });
        match carry.finish() {
            Ok(()) => tracing::debug!(task = %order.id, "a task has ended"),
            Err(code) => tracing::warn!(task = %order.id, %code, "a task has failed"),
        }
    }

    fn ways(&self) -> Ways<'_> {
        let Self { clock, pool, paths, call_ms, .. } = self;
        Ways { clock, pool, paths, call_ms: *call_ms, metrics: None, heartbeat: None }
    }
}

/// The part of an object that is under way: where it lies in a segment of this host, or in memory that is made when it is first
/// needed.
#[derive(Default)]
struct Window {
    seen: Option<View>,
    buffer: Option<Buffer>,
    len: usize,
}

impl Memory for Window {
    fn part(&mut self, _: usize, at: u64, len: u64, _: u64) -> Option<SliceList> {
        if let Some(view) = &self.seen {
            return Some(SliceList::from(view.raw()).part(at, len));
        }
        let buffer = self.buffer.get_or_insert_with(|| Buffer::zeroed(self.len));
        Some(SliceList::from(buffer.raw()).part(at, len))
    }

    fn takes_views(&self) -> bool {
        true
    }

    fn take_view(&mut self, _: usize, view: View) {
        self.seen = Some(view);
    }

    /// Before the master hears that the copy is there, and grants the range to others: they would wait for the view.
    fn on_written(&mut self) {
        self.seen = None;
    }
}
