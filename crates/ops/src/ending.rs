use mooncake_types::{ErrorCode, PutEnd, Reply, Request, Tick};

use super::dropping::{Dropped, Dropping};
use super::master_retry::UNKNOWN_END;
use super::{CallError, MoveError, RetryPolicy, Step, unexpected};

/// Publishes puts, and has the nodes drop what these take the place of. An end that has to wait for a drop is asked for
/// again, and so is one whose drops were not confirmed.
#[derive(Debug, Default)]
pub(super) struct Ending<'a> {
    puts: Vec<PutEnd<'a>>,
    outcomes: Vec<Ended>,
    /// Which of them are to be asked for, and which were last.
    left: Vec<usize>,
    asked: Vec<usize>,
    rounds: u32,
    dropping: Dropping,
}

/// What became of the end of a put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// The master answered. If it published the object, no reader finds the replaced version any more.
    Settled(Result<(), ErrorCode>),
    /// The master did not take it.
    Refused(ErrorCode),
    /// The master may have published the object, and readers may still find the replaced version.
    Unknown(ErrorCode),
}

const PUBLISHED: Ended = Ended::Settled(Ok(()));

impl<'a> Ending<'a> {
    pub(super) fn new(puts: Vec<PutEnd<'a>>) -> Self {
        let left = (0..puts.len()).collect();
        let outcomes = vec![Ended::Refused(ErrorCode::InternalError); puts.len()];
        Self { puts, outcomes, left, ..Self::default() }
    }

    /// What to do now; nothing once all have their outcomes.
    pub(super) fn next(&mut self, now: Tick) -> Option<Step<'a>> {
        if self.dropping.is_under_way() {
            if let Some(step) = self.dropping.next(now) {
                return Some(step);
            }
            if self.dropping.end() == Dropped::Not {
                let published = self.asked.iter().filter(|&&at| self.outcomes[at] == PUBLISHED);
                self.left.extend(published);
                self.left.sort_unstable();
            }
        }
        self.asked = std::mem::take(&mut self.left);
        let puts: Vec<PutEnd<'a>> = self.asked.iter().map(|&at| self.puts[at]).collect();
        (!puts.is_empty()).then_some(Step::Call(Request::PutEnd { puts }))
    }

    /// The outcome of [`Step::Call`]; gives a code if there is no master any more that could be asked for the rest.
    pub(super) fn on_reply(&mut self, reply: Result<Reply, CallError>) -> Option<ErrorCode> {
        if self.dropping.is_under_way() {
            self.dropping.on_told(reply.is_ok());
            return None;
        }
        self.dropping.on_reply(&reply);
        match reply {
            Ok(Reply::Statuses(results) | Reply::Remaining { results, .. })
                if results.len() == self.asked.len() =>
            {
                self.settle(results);
            }
            Ok(other) => {
                // A leader that only begins may find these puts at their nodes and take them after all.
                let is_early = other == Reply::Refused(ErrorCode::UnavailableInCurrentStatus);
                let is_refusal = matches!(other, Reply::Refused(_)) && !is_early;
                self.fail(unexpected(&other), is_refusal);
            }
            Err(error) => {
                self.fail(error.code(), false);
                return Some(error.code());
            }
        }
        None
    }

    /// The outcome of [`Step::Drop`].
    pub(super) fn on_dropped(&mut self, results: &[Result<(), MoveError>]) {
        self.dropping.on_dropped(results);
    }

    /// By position, once there is nothing more to do.
    pub(super) fn outcomes(self) -> Vec<Ended> {
        self.outcomes
    }

    fn settle(&mut self, results: Vec<Result<(), ErrorCode>>) {
        self.rounds += 1;
        for (&at, result) in self.asked.iter().zip(results) {
            let outcome = &mut self.outcomes[at];
            *outcome = match result {
                Err(code) if *outcome == PUBLISHED => Ended::Unknown(code),
                // What it is to replace has itself replaced something that is not dropped yet.
                Err(code @ ErrorCode::ObjectReplicaBusy) => {
                    if RetryPolicy::PUT_END.allows(self.rounds) {
                        self.left.push(at);
                    }
                    Ended::Refused(code)
                }
                // It may have been there, and been removed since: to write it again would bring it back.
                Err(UNKNOWN_END) => Ended::Unknown(UNKNOWN_END),
                result => Ended::Settled(result),
            };
        }
    }

    /// There is no answer to what was asked.
    fn fail(&mut self, code: ErrorCode, is_refusal: bool) {
        for &at in &self.asked {
            let outcome = &mut self.outcomes[at];
            *outcome = match is_refusal && *outcome != PUBLISHED {
                true => Ended::Refused(code),
                false => Ended::Unknown(code),
            };
        }
    }
}
