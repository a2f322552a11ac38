use mooncake_types::{ErrorCode, NodeDrop, PutRevoke, Reply, Request, Tick};

use super::start::GrantedPut;

use crate::op::{CallError, MoveError, Op, Step, unexpected};

/// The fourth stage, for puts that failed: has nodes drop what they hold of them, and the master forget them.
#[derive(Debug, Default)]
pub struct GiveUp<'a> {
    /// Ranges that nodes may hold, and that a later leader must not find.
    pub(super) discards: Vec<NodeDrop>,
    pub(super) puts: Vec<PutRevoke<'a>>,
    closed: Vec<CloseOutcome>,
}

/// The master's answer to the end of a put, or to giving it up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseOutcome {
    /// The master decided.
    Settled(Result<(), ErrorCode>),
    /// The master may have decided. The caller may ask again.
    Unknown(ErrorCode),
}

impl<'a> GiveUp<'a> {
    /// Has the master forget these puts. No node holds anything of them.
    pub(super) fn revoking(puts: Vec<PutRevoke<'a>>) -> Self {
        Self { puts, ..Self::default() }
    }

    /// Has nodes drop what they hold of this put.
    pub(super) fn discard(&mut self, put: &GrantedPut<'a>) {
        put.granted.discards_into(&mut self.discards);
    }

    /// Has the master forget this put.
    pub(super) fn revoke(&mut self, put: &GrantedPut<'a>) {
        self.puts.push(put.granted.revocation(put.key));
    }
}

impl<'a> Op<'a> for GiveUp<'a> {
    /// By put.
    type Output = Vec<CloseOutcome>;

    fn next(&mut self, _now: Tick) -> Step<'a> {
        if !self.discards.is_empty() {
            return Step::Drop(std::mem::take(&mut self.discards));
        }
        let puts = std::mem::take(&mut self.puts);
        if puts.is_empty() {
            return Step::Done;
        }
        self.closed = vec![CloseOutcome::Unknown(ErrorCode::InternalError); puts.len()];
        Step::Call(Request::PutRevoke { puts })
    }

    /// If the request failed, the master releases the grants after its timeout.
    fn on_reply(&mut self, reply: Result<Reply, CallError>) {
        match reply {
            Ok(Reply::Statuses(results)) if results.len() == self.closed.len() => {
                self.closed = results.into_iter().map(CloseOutcome::Settled).collect();
            }
            Ok(other) => self.closed.fill(CloseOutcome::Unknown(unexpected(&other))),
            Err(error) => self.closed.fill(CloseOutcome::Unknown(error.code())),
        }
    }

    /// Ignores failures: an unreached node reports what it holds when the master asks.
    fn on_transfer(&mut self, _results: Vec<Result<(), MoveError>>) {}

    fn finish(self) -> Vec<CloseOutcome> {
        self.closed
    }
}
