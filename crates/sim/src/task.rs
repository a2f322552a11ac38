use mooncake_ops::{CallError, Deadline, MoveError, Op, Step};
use mooncake_types::{ClientId, Reply, Tick};

use crate::desk::Desk;
use crate::extents::Extents;

/// How long after its start a call begins something.
const CALL_MS: u64 = 30_000;

/// An operation that a thread is in the middle of.
pub(crate) struct Task {
    driven: Box<dyn Driven>,
    /// By item, the number of its key.
    pub(crate) keys: Vec<usize>,
    began: u64,
    /// By item, what was read for it.
    pub(crate) buffers: Vec<Extents>,
}

/// What an operation came to.
pub(crate) struct After<'w> {
    pub(crate) client: ClientId,
    pub(crate) now: Tick,
    pub(crate) desk: &'w mut Desk,
    pub(crate) keys: Vec<usize>,
    pub(crate) buffers: Vec<Extents>,
    pub(crate) began: u64,
}

/// An operation of any kind, and what follows it.
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

/// Operations borrow what they are about; a test may leak it.
pub(crate) fn leak<T>(items: Vec<T>) -> &'static [T] {
    Box::leak(items.into_boxed_slice())
}

impl Task {
    /// Runs `op`, whose items are about these keys, and goes on with what `end` gives.
    pub(crate) fn new<O: Op<'static> + 'static>(
        op: O,
        keys: Vec<usize>,
        desk: &Desk,
        end: impl FnOnce(O::Output, After<'_>) -> Option<Task> + 'static,
    ) -> Self {
        Self {
            driven: Box::new(Running { op, deadline: Deadline::of_ms(CALL_MS), end }),
            buffers: vec![Extents::default(); keys.len()],
            keys,
            began: desk.event,
        }
    }

    /// As begun at that event, when what it builds on was looked up.
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

    /// What follows.
    pub(crate) fn end(self, client: ClientId, now: Tick, desk: &mut Desk) -> Option<Task> {
        let Self { driven, keys, buffers, began } = self;
        driven.end(After { client, now, desk, keys, buffers, began })
    }
}
