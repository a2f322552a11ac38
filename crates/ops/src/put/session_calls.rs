use mooncake_types::{ErrorCode, PutEnd, PutItem, PutMode, PutRevoke, ReplicateConfig};

use super::check::check;
use super::composed::{Composition, Stage, StagedOp};
use super::end::{End, EndOutcome};
use super::give_up::{CloseOutcome, GiveUp};
use super::session::{Closing, PutSession};
use super::start::{RoomPatience, RoomPause, Start};
use super::write::Write;

use crate::op::Op;

/// Starts put sessions: asks the master for ranges, which the caller writes part by part.
pub type StartOp<'a> = StagedOp<'a, StartSessions<'a>>;

/// See [`StartOp`].
#[derive(Debug)]
pub struct StartSessions<'a> {
    items: &'a [PutItem<'a>],
    config: ReplicateConfig<'a>,
    ttl_ms: u64,
    /// Positions to ask for again after the pause, because the master makes room for them.
    waiting: Vec<usize>,
    pause: Option<RoomPause>,
    patience: RoomPatience,
    results: Vec<Result<PutSession, ErrorCode>>,
}

impl<'a> StartOp<'a> {
    /// Starts puts of `items`, all of them under `config`. They last for `ttl_ms`.
    #[must_use]
    pub fn new(items: &'a [PutItem<'a>], config: &ReplicateConfig<'a>, ttl_ms: u64) -> Self {
        let (positions, results) = check(items, config);
        let (config, waiting, pause) = (config.clone(), Vec::new(), None);
        let patience = RoomPatience::default();
        let start = StartSessions { items, config, ttl_ms, waiting, pause, patience, results };
        Self::with(start, positions)
    }

    /// As [`crate::PutOp::patient`].
    #[must_use]
    pub fn patient(mut self, ms: u64) -> Self {
        self.verb.patience = RoomPatience::of_ms(ms);
        self
    }
}

impl<'a> StartSessions<'a> {
    fn start(&self, positions: Vec<usize>) -> Start<'a> {
        let start = Start::new(self.items, positions, &self.config, PutMode::Insert);
        start.patient(self.patience)
    }

    fn start_again(&mut self) -> Option<Stage<'a>> {
        let (waiting, pause) = (std::mem::take(&mut self.waiting), self.pause.take());
        (!waiting.is_empty()).then(|| Stage::Start(self.start(waiting).after(pause)))
    }
}

impl<'a> Composition<'a> for StartSessions<'a> {
    type Output = Vec<Result<PutSession, ErrorCode>>;

    fn lens(&self, position: usize) -> (usize, u64) {
        let PutItem { key, len, group, session } = self.items[position];
        (key.len() + group.len() + session.len(), len)
    }

    fn begin(&mut self, batch: Vec<usize>) -> Stage<'a> {
        self.patience = self.patience.afresh();
        Stage::Start(self.start(batch))
    }

    fn after(&mut self, ended: Stage<'a>) -> Option<Stage<'a>> {
        let Stage::Start(start) = ended else { return self.start_again() };
        self.patience = start.patience();
        let started = start.finish();
        let expires_at = started.asked_at.after_ms(self.ttl_ms);
        for put in started.granted {
            self.results[put.position] = Ok(PutSession::new(put.granted, expires_at));
        }
        for (position, code) in started.refused {
            self.results[position] = Err(code);
        }
        for &position in &started.waiting {
            self.results[position] = Err(ErrorCode::NoAvailableHandle);
        }
        (self.waiting, self.pause) = (started.waiting, started.pause);
        Some(Stage::GiveUp(GiveUp::revoking(started.senseless)))
    }

    fn give_up(&mut self, rest: Vec<usize>, code: ErrorCode) {
        for position in rest {
            self.results[position] = Err(code);
        }
    }

    fn finish(self) -> Self::Output {
        self.results
    }
}

/// Writes the parts that [`PutSession::begin`] gave straight to their granted ranges, without a request to the
/// master.
pub type PutPartsOp<'a> = Write<'a>;

/// Publishes put sessions and gives them up.
pub type CloseOp<'a> = StagedOp<'a, CloseSessions<'a>>;

/// See [`CloseOp`].
#[derive(Debug)]
pub struct CloseSessions<'a> {
    closings: &'a [Closing<'a>],
    /// The positions of the batch's puts that end.
    ends: Vec<usize>,
    /// The positions of the batch's puts that are given up, after the ends.
    given_up: Vec<usize>,
    results: Vec<CloseOutcome>,
}

impl<'a> CloseOp<'a> {
    /// Carries out all `closings`.
    #[must_use]
    pub fn new(closings: &'a [Closing<'a>]) -> Self {
        let results = vec![CloseOutcome::Unknown(ErrorCode::InternalError); closings.len()];
        let sessions = CloseSessions { closings, ends: Vec::new(), given_up: Vec::new(), results };
        Self::with(sessions, (0..closings.len()).collect())
    }
}

impl<'a> CloseSessions<'a> {
    fn end(&self) -> End<'a> {
        End::new(self.ends.iter().filter_map(|&at| match self.closings[at] {
            Closing::End(put) => Some(put),
            Closing::GiveUp(..) => None,
        }))
    }

    fn on_ended(&mut self, outcomes: Vec<EndOutcome>) {
        for (&at, ended) in self.ends.iter().zip(outcomes) {
            self.results[at] = match ended {
                EndOutcome::Settled(result) => CloseOutcome::Settled(result),
                EndOutcome::Refused(code) | EndOutcome::Unknown(code) => {
                    CloseOutcome::Unknown(code)
                }
            };
        }
    }

    fn given_up(&self) -> GiveUp<'a> {
        let mut given_up = GiveUp::default();
        for &at in &self.given_up {
            if let Closing::GiveUp(put, discards) = &self.closings[at] {
                given_up.puts.push(*put);
                given_up.discards.extend_from_slice(discards);
            }
        }
        given_up
    }
}

impl<'a> Composition<'a> for CloseSessions<'a> {
    type Output = Vec<CloseOutcome>;

    fn lens(&self, position: usize) -> (usize, u64) {
        let (Closing::End(PutEnd { key, .. }) | Closing::GiveUp(PutRevoke { key, .. }, _)) =
            &self.closings[position];
        (key.len(), 0)
    }

    fn begin(&mut self, batch: Vec<usize>) -> Stage<'a> {
        let is_end = |&at: &usize| matches!(self.closings[at], Closing::End(_));
        (self.ends, self.given_up) = batch.into_iter().partition(is_end);
        Stage::End(self.end())
    }

    fn after(&mut self, ended: Stage<'a>) -> Option<Stage<'a>> {
        match ended {
            Stage::End(end) => {
                self.on_ended(end.finish());
                Some(Stage::GiveUp(self.given_up()))
            }
            Stage::GiveUp(over) => {
                for (at, closed) in
                    std::mem::take(&mut self.given_up).into_iter().zip(over.finish())
                {
                    self.results[at] = closed;
                }
                None
            }
            Stage::Start(_) | Stage::Write(_) => None,
        }
    }

    fn give_up(&mut self, rest: Vec<usize>, code: ErrorCode) {
        for at in rest.into_iter().chain(std::mem::take(&mut self.given_up)) {
            self.results[at] = CloseOutcome::Unknown(code);
        }
    }

    fn finish(self) -> Self::Output {
        self.results
    }
}
