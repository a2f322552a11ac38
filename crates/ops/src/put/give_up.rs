use mooncake_types::{Discard, ErrorCode, PutRevoke, Reply, Request, Tick};

use super::start::InPut;

use crate::op::{CallError, MoveError, Op, Step, unexpected};

/// The last stage of puts that came to nothing: has their nodes drop what they hold, and the master forget them.
#[derive(Debug, Default)]
pub struct GiveUp<'a> {
    /// What nodes may hold: a later leader is not to find it.
    pub(super) discards: Vec<Discard>,
    pub(super) puts: Vec<PutRevoke<'a>>,
    closed: Vec<Closed>,
}

/// What the master made of the end of a put, or of giving it up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// The master decided.
    Settled(Result<(), ErrorCode>),
    /// It may have decided, and may be asked again.
    Unknown(ErrorCode),
}

impl<'a> GiveUp<'a> {
    /// Has the master forget these puts, of which no node holds anything.
    pub(super) fn revoking(puts: Vec<PutRevoke<'a>>) -> Self {
        Self { puts, ..Self::default() }
    }

    /// Has what nodes hold of this put dropped.
    pub(super) fn discard(&mut self, put: &InPut<'a>) {
        put.granted.discards_into(&mut self.discards);
    }

    /// Has the master forget this put.
    pub(super) fn revoke(&mut self, put: &InPut<'a>) {
        self.puts.push(put.granted.revocation(put.key));
    }
}

impl<'a> Op<'a> for GiveUp<'a> {
    /// By put.
    type Output = Vec<Closed>;

    fn next(&mut self, _now: Tick) -> Step<'a> {
        if !self.discards.is_empty() {
            return Step::Drop(std::mem::take(&mut self.discards));
        }
        let puts = std::mem::take(&mut self.puts);
        if puts.is_empty() {
            return Step::Done;
        }
        self.closed = vec![Closed::Unknown(ErrorCode::InternalError); puts.len()];
        Step::Call(Request::PutRevoke { puts })
    }

    /// Whatever became of the request: what was granted is released after a while.
    fn on_reply(&mut self, reply: Result<Reply, CallError>) {
        match reply {
            Ok(Reply::Statuses(results)) if results.len() == self.closed.len() => {
                self.closed = results.into_iter().map(Closed::Settled).collect();
            }
            Ok(other) => self.closed.fill(Closed::Unknown(unexpected(&other))),
            Err(error) => self.closed.fill(Closed::Unknown(error.code())),
        }
    }

    /// Nodes that were not reached tell the master what they hold when it asks.
    fn on_transfer(&mut self, _results: Vec<Result<(), MoveError>>) {}

    fn finish(self) -> Vec<Closed> {
        self.closed
    }
}
