use mooncake_types::{ErrorCode, Reply, Tick};

use super::end::End;
use super::give_up::GiveUp;
use super::start::Start;
use super::write::Write;
use crate::batches::Batches;
use crate::op::{CallError, MoveError, Op, Step};

/// One stage of an operation.
#[derive(Debug)]
pub enum Stage<'a> {
    /// Asks the master for ranges.
    Start(Start<'a>),
    /// Writes them.
    Write(Write<'a>),
    /// Publishes the objects that were written.
    End(End<'a>),
    /// Gives up the puts that failed.
    GiveUp(GiveUp<'a>),
}

/// An operation on many keys, defined by which stage follows which.
pub trait Composition<'a> {
    /// The type of the answer.
    type Output;

    /// Lengths of the key and of the object at this position, in bytes: a batch is bounded by both.
    fn lens(&self, position: usize) -> (usize, u64);

    /// The first stage of the next batch, which has these positions.
    fn begin(&mut self, batch: Vec<usize>) -> Stage<'a>;

    /// The stage that follows `ended`; `None` at the end of the batch.
    fn after(&mut self, ended: Stage<'a>) -> Option<Stage<'a>>;

    /// The master cannot be asked: no further stage follows, and the items at `rest` are not begun.
    fn give_up(&mut self, rest: Vec<usize>, code: ErrorCode);

    /// The answer.
    fn finish(self) -> Self::Output;
}

/// Runs a [`Composition`] through its stages, batch by batch, until a call to the master fails.
#[derive(Debug)]
pub struct StagedOp<'a, C> {
    pub(super) verb: C,
    batches: Batches,
    stage: Option<Stage<'a>>,
    /// Set once a call to the master failed. The current stage still ends, and no other begins.
    gone: Option<ErrorCode>,
}

impl<'a, C: Composition<'a>> StagedOp<'a, C> {
    /// Runs `verb` for the items at these positions.
    pub(super) fn with(verb: C, positions: Vec<usize>) -> Self {
        Self { verb, batches: Batches::new(positions), stage: None, gone: None }
    }

    fn begin_batch(&mut self) -> Option<Stage<'a>> {
        let batch = self.batches.take_puts(|position| self.verb.lens(position));
        (!batch.is_empty()).then(|| self.verb.begin(batch))
    }

    fn after(&mut self, ended: Stage<'a>) -> Option<Stage<'a>> {
        let next = self.verb.after(ended);
        let Some(code) = self.gone else { return next };
        self.verb.give_up(self.batches.take_rest(), code);
        None
    }
}

impl<'a, C: Composition<'a>> Op<'a> for StagedOp<'a, C> {
    type Output = C::Output;

    fn batch(&self) -> u64 {
        self.batches.begun()
    }

    fn next(&mut self, now: Tick) -> Step<'a> {
        loop {
            let Some(mut stage) = self.stage.take().or_else(|| self.begin_batch()) else {
                return Step::Done;
            };
            match stage.next(now) {
                Step::Done => self.stage = self.after(stage),
                step => {
                    self.stage = Some(stage);
                    return step;
                }
            }
        }
    }

    fn on_reply(&mut self, reply: Result<Reply, CallError>) {
        let waits = self.stage.as_ref().is_some_and(Stage::waits_for_room);
        let code = |error: &CallError| match error {
            CallError::TimedOut { .. } if waits => ErrorCode::NoAvailableHandle,
            error => error.code(),
        };
        self.gone = self.gone.or(reply.as_ref().err().map(code));
        self.stage.as_mut().expect("a reply is to a stage").on_reply(reply);
    }

    fn on_transfer(&mut self, results: Vec<Result<(), MoveError>>) {
        self.stage.as_mut().expect("a transfer is of a stage").on_transfer(results);
    }

    fn finish(self) -> Self::Output {
        self.verb.finish()
    }
}

impl<'a> Stage<'a> {
    fn waits_for_room(&self) -> bool {
        matches!(self, Self::Start(start) if start.waits())
    }

    fn next(&mut self, now: Tick) -> Step<'a> {
        match self {
            Self::Start(start) => start.next(now),
            Self::Write(write) => write.next(now),
            Self::End(end) => end.next(now),
            Self::GiveUp(give_up) => give_up.next(now),
        }
    }

    fn on_reply(&mut self, reply: Result<Reply, CallError>) {
        match self {
            Self::Start(start) => start.on_reply(reply),
            Self::Write(write) => write.on_reply(reply),
            Self::End(end) => end.on_reply(reply),
            Self::GiveUp(give_up) => give_up.on_reply(reply),
        }
    }

    fn on_transfer(&mut self, results: Vec<Result<(), MoveError>>) {
        match self {
            Self::Start(start) => start.on_transfer(results),
            Self::Write(write) => write.on_transfer(results),
            Self::End(end) => end.on_transfer(results),
            Self::GiveUp(give_up) => give_up.on_transfer(results),
        }
    }
}
