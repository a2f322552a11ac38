//! Copies and moves of replicas that the master asks this node for, one object at a time.

use std::sync::Arc;
use std::time::Duration;

use mooncake_memory::{Buffer, SliceList};
use mooncake_ops::{CallError, CarryOp, MoveError, Op, Step, TaskOp};
use mooncake_transfer::Paths;
use mooncake_types::{ErrorCode, Reply, SegmentAddress, TaskOrder, Tick};

use crate::clock::Clock;
use crate::drive::{Memory, Ways};
use crate::rpc::Pool;
use crate::worker::Worker;

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
    worker: Arc<Worker>,
}

impl Tasks {
    pub(crate) fn new(clock: Clock, pool: Pool, paths: Paths, call_ms: u64) -> Self {
        let worker = Worker::new("mooncake-tasks", Duration::ZERO);
        Self { clock, pool, paths, call_ms, worker }
    }

    /// Tasks wait at the master.
    pub(crate) fn wake(self: &Arc<Self>) {
        let tasks = Arc::clone(self);
        self.worker.wake(move || tasks.carry_out_all());
    }

    /// Begins nothing any more, and waits a little for what is under way.
    pub(crate) fn stop(&self) {
        self.worker.stop(STOP_PATIENCE);
        self.pool.clear();
    }

    /// Fetches tasks until there are none left.
    fn carry_out_all(&self) {
        while !self.worker.is_stopping() {
            match self.ways().drive(TaskOp::fetch(), Window::default()) {
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
        let stoppable = Stoppable { carry, tasks: self };
        let len = order.len.min(WINDOW_BYTES) as usize;
        match self.ways().drive(stoppable, Window { buffer: None, len }) {
            Ok(()) => tracing::debug!(task = %order.id, "a task has ended"),
            Err(code) => tracing::warn!(task = %order.id, %code, "a task has failed"),
        }
    }

    fn ways(&self) -> Ways<'_> {
        let Self { clock, pool, paths, call_ms, .. } = self;
        Ways { clock, pool, paths, call_ms: *call_ms, metrics: None, heartbeat: None }
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
        if self.tasks.worker.is_stopping() {
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
