//! Carries out the copies and moves of replicas that the master orders from this node.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Builder};
use std::time::{Duration, Instant};

use mooncake_memory::{Buffer, SliceList};
use mooncake_ops::{CarryOp, Op, RangeToRead, TaskOp};
use mooncake_transfer::{Paths, View};
use mooncake_types::{ErrorCode, LogLimiter, TaskOrders, limits};

use crate::clock::Clock;
use crate::drive::{Memory, OpDriver};
use crate::rpc::ConnectionPool;
use crate::task_queue::{FetchedTask, TaskQueue};
use crate::worker::Worker;

/// Most bytes of objects that tasks hold at the same time.
const WINDOW_BYTES: u64 = 64 << 20;

/// Tasks that run at the same time. If several write to one disk, they share its syncs.
const TASKS_AT_ONCE: usize = 4;
/// The same on a node with an object store, which stores concurrent writes together.
const MANY_TASKS_AT_ONCE: usize = 16;

/// Most tasks in one reply of the master.
const FETCHED_TASKS: u32 = 16;

/// How long the request of a node with a disk waits at the master for tasks, in milliseconds, so that offloads begin
/// at once.
const WAIT_MS: u32 = 500;
const _: () = assert!(WAIT_MS <= limits::MAX_TASK_WAIT_MS);

/// How long closing waits for tasks under way. Later they end by themselves, unreported: the master gives them up,
/// and nodes refuse their writes once the ranges are granted to others.
const STOP_PATIENCE: Duration = Duration::from_secs(2);

/// Carries out tasks on threads that exist only while there are tasks. It has its own connections to the nodes, so
/// that no caller waits for a lane that a task uses.
pub(crate) struct Tasks {
    clock: Clock,
    pool: ConnectionPool,
    paths: Paths,
    call_ms: u64,
    /// How long the master may wait for a task before it replies, in milliseconds.
    wait_ms: u32,
    /// Tasks that run at the same time.
    at_once: usize,
    /// Whether the thread waits for that reply.
    is_waiting: AtomicBool,
    queue: TaskQueue,
    worker: Arc<Worker>,
    failures: LogLimiter<ErrorCode>,
}

impl Tasks {
    pub(crate) fn new(clock: Clock, pool: ConnectionPool, paths: Paths, call_ms: u64) -> Self {
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
            failures: LogLimiter::new(),
        }
    }

    /// Has the thread wait for tasks at the master once it is woken, rather than for a pong that announces tasks. It
    /// waits for at most half of what a call may take: a reply that came too late would name tasks that this client
    /// does not carry out.
    pub(crate) fn waiting(self, call_timeout: Duration) -> Self {
        let half_ms = u32::try_from(call_timeout.as_millis() / 2).unwrap_or(u32::MAX);
        Self { wait_ms: half_ms.min(WAIT_MS), ..self }
    }

    /// Carries out more tasks at the same time.
    pub(crate) fn many_at_once(self) -> Self {
        Self { at_once: MANY_TASKS_AT_ONCE, ..self }
    }

    /// Starts the thread, since tasks wait at the master.
    pub(crate) fn wake(self: &Arc<Self>) {
        let tasks = Arc::clone(self);
        self.worker.wake(move || tasks.carry_out_all());
    }

    /// Begins no more tasks, and waits a little for those under way.
    pub(crate) fn stop(&self) {
        let only_waits = self.is_waiting.load(Ordering::Relaxed) && self.queue.is_idle();
        self.worker.stop(if only_waits { Duration::ZERO } else { STOP_PATIENCE });
        self.pool.clear();
    }

    /// Fetches tasks until there are none left, or for ever if it waits for them. It fetches the next ones before the
    /// last ones are done, so that a disk always has something to write.
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

    /// Fetches some tasks; `None` if the thread must end.
    fn fetch(&self) -> Option<TaskOrders> {
        while !self.worker.is_stopping() {
            self.is_waiting.store(self.wait_ms > 0, Ordering::Relaxed);
            let fetch = TaskOp::fetch(FETCHED_TASKS, self.wait_ms);
            let fetched = self.driver().drive(fetch, CopyBuffer::default());
            self.is_waiting.store(false, Ordering::Relaxed);
            match fetched {
                Ok(fetched) if !fetched.orders.is_empty() => return Some(fetched),
                // A task that ends may make room for others.
                Ok(_) if self.wait_ms == 0 && self.queue.wait_until_idle() => return None,
                Ok(_) => {}
                Err(_) if self.worker.is_stopping() => {}
                Err(code) => {
                    // When the master can be reached again, its next pong says whether there are tasks.
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
        let mut buffer =
            CopyBuffer { seen: None, buffer: None, len: order.len.min(window_bytes) as usize };
        // A task is cancelled when its node leaves.
        self.driver().run_checking(&mut carry, &mut buffer, |carry| {
            if self.worker.is_stopping() {
                carry.cancel();
            }
        });
        match carry.finish() {
            Ok(()) => tracing::debug!(task = %order.id, "a task has ended"),
            Err(code) => {
                // A full disk fails every copy to it.
                if let Some(more) = self.failures.admit(code, Instant::now()) {
                    tracing::warn!(task = %order.id, %code, more, "a task has failed");
                }
            }
        }
    }

    fn driver(&self) -> OpDriver<'_> {
        let Self { clock, pool, paths, call_ms, .. } = self;
        OpDriver { clock, pool, paths, call_ms: *call_ms, metrics: None, heartbeat: None }
    }
}

/// The part of an object that is being copied: shown in place in a segment of this host, or in a buffer that is made
/// when it is first needed.
#[derive(Default)]
struct CopyBuffer {
    seen: Option<View>,
    buffer: Option<Buffer>,
    len: usize,
}

impl Memory for CopyBuffer {
    fn make_room(&mut self, _: &[RangeToRead]) {
        self.buffer.get_or_insert_with(|| Buffer::zeroed(self.len));
    }

    fn part(&self, _: usize, at: u64, len: u64, _: u64) -> Option<SliceList<'_>> {
        let whole = match &self.seen {
            Some(view) => view.raw(),
            None => self.buffer.as_ref()?.raw(),
        };
        Some(SliceList::from(whole).part(at, len))
    }

    fn takes_views(&self) -> bool {
        true
    }

    fn take_view(&mut self, _: usize, view: View) {
        self.seen = Some(view);
    }

    /// Releases the view before the master hears of the copy and grants the range to others, since these would wait
    /// for the view.
    fn on_written(&mut self) {
        self.seen = None;
    }
}
