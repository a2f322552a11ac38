use mooncake_types::{ErrorCode, PutEnd, Reply, Request, Tick};

use crate::dropping::{Dropped, Dropping};
use crate::op::{CallError, MoveError, Op, Step, unexpected};
use crate::retry::RetryPolicy;
use crate::retry::UNKNOWN_END;

/// The third stage of a put: asks the master to publish it, then has nodes drop the version that it replaces. Asks
/// again if the master puts the end off, or if nodes did not confirm the drops.
#[derive(Debug)]
pub struct End<'a> {
    puts: Vec<(PutEnd<'a>, EndState)>,
    rounds: u32,
    dropping: Dropping,
}

/// How far the end of a put is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndState {
    /// The next request asks for it. `is_published` says whether the master published the put before.
    Waiting {
        is_published: bool,
    },
    /// The request is under way.
    Asked {
        is_published: bool,
    },
    /// The master published it. Nodes still have to drop the version that it replaces.
    Published,
    Ended(EndOutcome),
}

/// The outcome of the end of a put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndOutcome {
    /// The master answered. If it published the object, no reader finds the replaced version.
    Settled(Result<(), ErrorCode>),
    /// The master did not publish the object.
    Refused(ErrorCode),
    /// The master may have published the object, and readers may still find the replaced version.
    Unknown(ErrorCode),
}

impl<'a> End<'a> {
    pub(super) fn new(puts: impl Iterator<Item = PutEnd<'a>>) -> Self {
        let puts = puts.map(|put| (put, EndState::Waiting { is_published: false }));
        Self { puts: puts.collect(), rounds: 0, dropping: Dropping::default() }
    }

    /// Ends the published puts, or asks for them again if nodes did not confirm the drops.
    fn on_drops_over(&mut self, dropped: Dropped) {
        for (_, state) in &mut self.puts {
            if *state == EndState::Published {
                *state = match dropped {
                    Dropped::All => EndState::Ended(EndOutcome::Settled(Ok(()))),
                    Dropped::Not => EndState::Waiting { is_published: true },
                };
            }
        }
    }

    /// Asks the master for the end of every waiting put.
    fn ask(&mut self) -> Step<'a> {
        let mut puts = Vec::with_capacity(self.puts.len());
        for (put, state) in &mut self.puts {
            if let EndState::Waiting { is_published } = *state {
                *state = EndState::Asked { is_published };
                puts.push(*put);
            }
        }
        if puts.is_empty() { Step::Done } else { Step::Call(Request::PutEnd { puts }) }
    }

    /// The puts in the request under way, each with whether the master published it before.
    fn asked(&mut self) -> impl Iterator<Item = (&mut EndState, bool)> {
        self.puts.iter_mut().filter_map(|(_, state)| match *state {
            EndState::Asked { is_published } => Some((state, is_published)),
            _ => None,
        })
    }

    fn settle(&mut self, results: Vec<Result<(), ErrorCode>>) {
        self.rounds += 1;
        let may_wait = RetryPolicy::PUT_END.allows(self.rounds);
        for ((state, is_published), result) in self.asked().zip(results) {
            *state = match result {
                Ok(()) => EndState::Published,
                Err(code) if is_published => EndState::Ended(EndOutcome::Unknown(code)),
                // The version to replace has itself replaced one that nodes have not dropped yet.
                Err(ErrorCode::ObjectReplicaBusy) if may_wait => EndState::Waiting { is_published },
                Err(code @ ErrorCode::ObjectReplicaBusy) => {
                    EndState::Ended(EndOutcome::Refused(code))
                }
                // The object may have been published, and removed since: another put would bring it back.
                Err(UNKNOWN_END) => EndState::Ended(EndOutcome::Unknown(UNKNOWN_END)),
                Err(code) => EndState::Ended(EndOutcome::Settled(Err(code))),
            };
        }
    }

    /// Ends the puts in the request under way, which got no results.
    fn fail(&mut self, code: ErrorCode, is_refusal: bool) {
        for (state, is_published) in self.asked() {
            *state = EndState::Ended(match is_refusal && !is_published {
                true => EndOutcome::Refused(code),
                false => EndOutcome::Unknown(code),
            });
        }
    }
}

impl<'a> Op<'a> for End<'a> {
    /// By put.
    type Output = Vec<EndOutcome>;

    fn next(&mut self, now: Tick) -> Step<'a> {
        if let Some(step) = self.dropping.next(now) {
            return step;
        }
        let dropped = self.dropping.end();
        self.on_drops_over(dropped);
        self.ask()
    }

    fn on_reply(&mut self, reply: Result<Reply, CallError>) {
        if self.dropping.is_under_way() {
            return self.dropping.on_told(reply.is_ok());
        }
        self.dropping.on_reply(&reply);
        match reply {
            Ok(Reply::Statuses(results) | Reply::Remaining { results, .. })
                if results.len() == self.asked().count() =>
            {
                self.settle(results);
            }
            Ok(other) => {
                // A leader that is still recovering may find these puts at their nodes and accept them after all.
                let is_early = other == Reply::Refused(ErrorCode::UnavailableInCurrentStatus);
                let is_refusal = matches!(other, Reply::Refused(_)) && !is_early;
                self.fail(unexpected(&other), is_refusal);
            }
            Err(error) => self.fail(error.code(), false),
        }
    }

    fn on_transfer(&mut self, results: Vec<Result<(), MoveError>>) {
        self.dropping.on_dropped(&results);
    }

    fn finish(self) -> Vec<EndOutcome> {
        let ended = self.puts.into_iter().map(|(_, state)| match state {
            EndState::Ended(ended) => ended,
            other => unreachable!("an end that is {other:?} is not over"),
        });
        ended.collect()
    }
}
