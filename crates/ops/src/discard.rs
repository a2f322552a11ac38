use mooncake_types::{Reply, Tick};

use super::{CallError, Discard, MoveError, Op, Step};

/// Has nodes drop entries that nobody was told of, as far as they can be reached.
#[derive(Debug)]
pub struct DiscardOp {
    discards: Option<Vec<Discard>>,
}

impl DiscardOp {
    /// What is to be dropped.
    #[must_use]
    pub const fn new(discards: Vec<Discard>) -> Self {
        Self { discards: Some(discards) }
    }
}

impl<'a> Op<'a> for DiscardOp {
    type Output = ();

    fn next(&mut self, _now: Tick) -> Step<'a> {
        self.discards.take().map_or(Step::Done, Step::Drop)
    }

    fn on_reply(&mut self, _now: Tick, _reply: Result<Reply, CallError>) {
        unreachable!("the master is not asked");
    }

    fn on_transfer(&mut self, _results: Vec<Result<(), MoveError>>) {}

    fn finish(self) {}
}
