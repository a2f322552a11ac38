use mooncake_ops::{CallError, Deadline, MoveError, Op, Step};
use mooncake_types::{ClientId, Reply, Tick};

use crate::extents::Extents;
use crate::run_state::RunState;

/// How long after its start an operation may begin new steps.
const CALL_MS: u64 = 30_000;

/// An operation that a thread runs.
pub(crate) struct Task {
    driven: Box<dyn Driven>,
    /// The key number of each item.
    pub(crate) keys: Vec<usize>,
    began: u64,
    /// The bytes that were read for each item.
    pub(crate) buffers: Vec<Extents>,
}

/// The task that has ended, as its continuation sees it.
pub(crate) struct After<'w> {
    pub(crate) client: ClientId,
    pub(crate) now: Tick,
    pub(crate) run_state: &'w mut RunState,
    pub(crate) keys: Vec<usize>,
    pub(crate) buffers: Vec<Extents>,
    pub(crate) began: u64,
}

/// An operation of any type, with its continuation.
trait Driven {
    fn next(&mut self, now: Tick) -> Step<'static>;
    fn on_reply(&mut self, reply: Result<Reply, CallError>);
    fn on_transfer(&mut self, results: Vec<Result<(), MoveError>>);
    fn end(self: Box<Self>, after: After<'_>) -> Option<Task>;
}

struct Running<O, F> {
    op: O,
    deadline: Deadline,
    end: F,
}

impl<O: Op<'static>, F: FnOnce(O::Output, After<'_>) -> Option<Task>> Driven for Running<O, F> {
    fn next(&mut self, now: Tick) -> Step<'static> {
        self.deadline.next(&mut self.op, now)
    }

    fn on_reply(&mut self, reply: Result<Reply, CallError>) {
        self.op.on_reply(reply);
    }

    fn on_transfer(&mut self, results: Vec<Result<(), MoveError>>) {
        self.op.on_transfer(results);
    }

    fn end(self: Box<Self>, after: After<'_>) -> Option<Task> {
        (self.end)(self.op.finish(), after)
    }
}

/// Leaks items that an operation borrows. Tests may.
pub(crate) fn leak<T>(items: Vec<T>) -> &'static [T] {
    Box::leak(items.into_boxed_slice())
}

impl Task {
    /// Runs `op`, whose items have these keys. `end` gets its result, and may return the next task.
    pub(crate) fn new<O: Op<'static> + 'static>(
        op: O,
        keys: Vec<usize>,
        run_state: &RunState,
        end: impl FnOnce(O::Output, After<'_>) -> Option<Task> + 'static,
    ) -> Self {
        Self {
            driven: Box::new(Running { op, deadline: Deadline::of_ms(CALL_MS), end }),
            buffers: vec![Extents::default(); keys.len()],
            keys,
            began: run_state.event,
        }
    }

    /// The task, counted as begun at that event: then the client looked up what the task builds on.
    pub(crate) fn since(self, began: u64) -> Self {
        Self { began, ..self }
    }

    pub(crate) fn next(&mut self, now: Tick) -> Step<'static> {
        self.driven.next(now)
    }

    pub(crate) fn on_reply(&mut self, reply: Result<Reply, CallError>) {
        self.driven.on_reply(reply);
    }

    pub(crate) fn on_transfer(&mut self, results: Vec<Result<(), MoveError>>) {
        self.driven.on_transfer(results);
    }

    /// Ends the task. Returns the task that follows it, if there is one.
    pub(crate) fn end(self, client: ClientId, now: Tick, run_state: &mut RunState) -> Option<Task> {
        let Self { driven, keys, buffers, began } = self;
        driven.end(After { client, now, run_state, keys, buffers, began })
    }
}
