use std::sync::Arc;

use mooncake_types::{Epoch, ErrorCode, Located, Reply, Request, SegmentAddress, TaskOrder, Tick};

use super::dropping::discards;
use super::granted::{Attributes, Granted};
use super::placements::replicas;
use super::route::Route;
use super::span::Span;
use super::{CallError, Discard, MoveError, Op, Step};

/// Carries out one copy or move task: reads the source replica, writes all targets, tells the master how it ended.
///
/// At most `window_bytes` are held at a time; a longer object goes in so many windows, each read and then written. The
/// node confirms the version at every read, so all of them are of one version; a target is complete when the last has
/// been written.
#[derive(Debug)]
pub struct CarryOp<'a> {
    order: &'a TaskOrder,
    source: Option<Route>,
    targets: Granted,
    window_bytes: u64,
    /// Bytes of the object that are in place at all targets.
    carried: u64,
    phase: Phase,
    /// What is to be dropped before a move has ended.
    remains: Vec<Discard>,
    outcome: Result<(), ErrorCode>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Read,
    Write,
    End,
    /// Readers may have routes to the source of a move: its nodes drop it before the master forgets it.
    Drop,
    Ended,
}

impl<'a> CarryOp<'a> {
    /// The task of this order, whose placements point into `segments`.
    #[must_use]
    pub fn new(order: &'a TaskOrder, segments: Vec<SegmentAddress>, window_bytes: u64) -> Self {
        assert!(window_bytes > 0, "a window holds something");
        let segments: Arc<[SegmentAddress]> = segments.into();
        let located =
            Located { version: order.version, len: order.len, placements: order.source.clone() };
        let source = Route::new(located, &segments, Tick(u64::MAX)).ok();
        let targets = Granted {
            version: order.version,
            grant: order.grant,
            object_len: order.len,
            placements: order.targets.clone(),
            segments,
            attributes: Attributes::new(order.attributes.clone()),
        };
        let has_one_source = replicas(&order.source).count() == 1;
        let makes_sense = has_one_source && source.is_some() && targets.makes_sense();
        let outcome = if makes_sense { Ok(()) } else { Err(ErrorCode::InternalError) };
        let phase = if makes_sense { Phase::Read } else { Phase::End };
        Self {
            order,
            source,
            targets,
            window_bytes,
            carried: 0,
            phase,
            remains: Vec::new(),
            outcome,
        }
    }

    /// Gives the task up: nothing but the report to the master is left to do.
    pub fn cancel(&mut self) {
        if !matches!(self.phase, Phase::Drop | Phase::Ended) && self.outcome.is_ok() {
            self.fail(ErrorCode::UnavailableInCurrentStatus);
        }
    }

    fn window(&self) -> Span {
        let len = (self.order.len - self.carried).min(self.window_bytes);
        Span { from: self.carried, len, at: 0 }
    }

    fn read(&self) -> Step<'a> {
        let source = self.source.as_ref().expect("a task without a source is not begun");
        let replica = 0..self.order.source.len();
        let mut fetches = Vec::new();
        source.fetches_into(0, &replica, &[self.window()], &mut fetches);
        Step::Read(fetches)
    }

    fn write(&self) -> Step<'a> {
        let mut deposits = Vec::new();
        self.targets.deposits_into((0, &self.order.key), &[self.window()], 0, &mut deposits);
        Step::Write(self.epoch(), deposits)
    }

    fn epoch(&self) -> Epoch {
        self.order.grant.epoch
    }

    fn fail(&mut self, code: ErrorCode) {
        self.outcome = Err(code);
        self.phase = Phase::End;
    }
}

impl<'a> Op<'a> for CarryOp<'a> {
    /// Whether the replicas are there, as far as this client knows.
    type Output = Result<(), ErrorCode>;

    /// Each window counts as one.
    fn batch(&self) -> u64 {
        self.carried
    }

    fn next(&mut self, _now: Tick) -> Step<'a> {
        match self.phase {
            Phase::Read => self.read(),
            Phase::Write => self.write(),
            Phase::End => Step::Call(Request::EndTask { id: self.order.id, outcome: self.outcome }),
            Phase::Drop => Step::Drop(self.remains.clone()),
            Phase::Ended => Step::Done,
        }
    }

    fn on_reply(&mut self, _now: Tick, reply: Result<Reply, CallError>) {
        self.phase = Phase::Ended;
        if let Ok(Reply::Remaining { remains, .. }) = &reply
            && self.remains.is_empty()
        {
            self.remains = discards(remains);
            if !self.remains.is_empty() {
                self.phase = Phase::Drop;
                return;
            }
        }
        let told = match reply {
            Ok(Reply::Done(done)) => done,
            Ok(other) => Err(super::unexpected(&other)),
            Err(error) => Err(error.code()),
        };
        self.outcome = self.outcome.and(told);
    }

    fn on_transfer(&mut self, results: Vec<Result<(), MoveError>>) {
        if self.phase == Phase::Drop {
            self.phase = Phase::End;
            let failed = results.iter().any(Result::is_err);
            self.outcome = if failed { Err(ErrorCode::TransferFail) } else { Ok(()) };
            return;
        }
        let is_read = self.phase == Phase::Read;
        if let Some(error) = results.into_iter().find_map(Result::err) {
            return self.fail(match error {
                MoveError::Stale if is_read => ErrorCode::ReplicaIsGone,
                MoveError::Refused(code) if code != ErrorCode::Ok => code,
                _ => ErrorCode::TransferFail,
            });
        }
        if is_read {
            self.phase = Phase::Write;
            return;
        }
        self.carried += self.window().len;
        self.phase = if self.carried == self.order.len { Phase::End } else { Phase::Read };
    }

    fn finish(self) -> Self::Output {
        self.outcome
    }
}
