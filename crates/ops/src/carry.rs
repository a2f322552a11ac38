use std::sync::Arc;

use mooncake_types::{
    ErrorCode, Grant, Located, NodeDrop, Reply, Request, SegmentAddress, TaskOrder, Tick,
};
use smallvec::smallvec;

use crate::dropping::discards;
use crate::get::Route;
use crate::op::{CallError, MoveError, Op, Step, unexpected};
use crate::placements::replicas;
use crate::put::{Granted, GrantedPut, PutWrite, Write};
use crate::span::Span;

/// Carries out one copy or move task: reads the source replica, writes all targets, reports the outcome to the
/// master.
///
/// The object moves in windows of at most `window_bytes`, each read and then written. The node checks the version at
/// every read, so all windows are of one version. A target is complete once its last window is written.
#[derive(Debug)]
pub struct CarryOp<'a> {
    order: &'a TaskOrder,
    /// The route to read and the grant to write; absent if the order is malformed.
    places: Option<(Route, Granted)>,
    window_bytes: u64,
    /// Bytes of the object that are in place at all targets.
    carried: u64,
    phase: Phase<'a>,
    outcome: Result<(), ErrorCode>,
}

#[derive(Debug)]
enum Phase<'a> {
    /// Reads a window.
    Read,
    /// Writes it.
    Write(Write<'a>),
    /// Reports the outcome to the master.
    End {
        is_source_dropped: bool,
    },
    /// Has nodes drop the source of a move, since readers may have routes to it. The master forgets it after that.
    Drop(Vec<NodeDrop>),
    Over,
}

impl<'a> CarryOp<'a> {
    /// Begins the task of `order`, whose placements index `segments`.
    #[must_use]
    pub fn new(order: &'a TaskOrder, segments: Vec<SegmentAddress>, window_bytes: u64) -> Self {
        assert!(window_bytes > 0, "a window holds something");
        let segments: Arc<[SegmentAddress]> = segments.into();
        let places = places(order, &segments);
        let (phase, outcome) = match places {
            Some(_) => (Phase::Read, Ok(())),
            None => (Phase::End { is_source_dropped: false }, Err(ErrorCode::InternalError)),
        };
        Self { order, places, window_bytes, carried: 0, phase, outcome }
    }

    /// Abandons the task: only the report to the master follows. Has no effect once nodes drop the source of a move.
    pub fn cancel(&mut self) {
        let is_undecided = matches!(
            self.phase,
            Phase::Read | Phase::Write(_) | Phase::End { is_source_dropped: false }
        );
        if is_undecided && self.outcome.is_ok() {
            self.fail(ErrorCode::UnavailableInCurrentStatus);
        }
    }

    fn window(&self) -> Span {
        let len = (self.order.len - self.carried).min(self.window_bytes);
        Span { from: self.carried, len, at: 0 }
    }

    fn places(&self) -> &(Route, Granted) {
        self.places.as_ref().expect("an order that makes no sense is not begun")
    }

    fn read(&self) -> Step<'a> {
        let (source, _) = self.places();
        let replica = 0..self.order.source.len();
        let mut fetches = Vec::new();
        source.fetches_into(0, &replica, &[self.window()], &mut fetches);
        Step::Read(fetches)
    }

    fn on_read(&mut self, error: Option<MoveError>) {
        match error {
            None => {
                let put = GrantedPut::new(0, &self.order.key, self.places().1.clone());
                let write = PutWrite::of(put, smallvec![self.window()]);
                self.phase = Phase::Write(Write::new(vec![write]));
            }
            Some(MoveError::Stale) => self.fail(ErrorCode::ReplicaIsGone),
            Some(MoveError::Refused(code)) if code != ErrorCode::Ok => self.fail(code),
            Some(_) => self.fail(ErrorCode::TransferFail),
        }
    }

    fn on_written(&mut self, write: &PutWrite<'a>) {
        if write.granted().failed.all != 0 {
            return self.fail(write.failure());
        }
        self.carried += self.window().len;
        self.phase = match self.carried == self.order.len {
            true => Phase::End { is_source_dropped: false },
            false => Phase::Read,
        };
    }

    fn fail(&mut self, code: ErrorCode) {
        self.outcome = Err(code);
        self.phase = Phase::End { is_source_dropped: false };
    }
}

/// The route to the source and the grant of the targets; `None` if the order is malformed.
fn places(order: &TaskOrder, segments: &Arc<[SegmentAddress]>) -> Option<(Route, Granted)> {
    let placements = order.source.clone();
    let located = Located { version: order.version, len: order.len, placements };
    let source = Route::new(located, segments, Tick(u64::MAX)).ok()?;
    let TaskOrder { version, targets, attributes, .. } = order.clone();
    let grant = Grant { version, placements: targets, attributes, ..Grant::default() };
    let targets = Granted::new(grant, order.grant, order.len, segments)?;
    (replicas(&order.source).count() == 1).then_some((source, targets))
}

impl<'a> Op<'a> for CarryOp<'a> {
    /// Whether the target replicas exist, as far as this client knows.
    type Output = Result<(), ErrorCode>;

    /// Each window is a batch of its own.
    fn batch(&self) -> u64 {
        self.carried
    }

    fn next(&mut self, now: Tick) -> Step<'a> {
        loop {
            match &mut self.phase {
                Phase::Read => return self.read(),
                Phase::Write(write) => match write.next(now) {
                    Step::Done => {
                        let written = std::mem::take(write).finish();
                        self.on_written(&written[0]);
                    }
                    step => return step,
                },
                Phase::End { .. } => {
                    let (id, outcome) = (self.order.id, self.outcome);
                    return Step::Call(Request::EndTask { id, outcome });
                }
                Phase::Drop(discards) => return Step::Drop(discards.clone()),
                Phase::Over => return Step::Done,
            }
        }
    }

    fn on_reply(&mut self, reply: Result<Reply, CallError>) {
        let is_told_first = matches!(self.phase, Phase::End { is_source_dropped: false });
        self.phase = Phase::Over;
        let told = match reply {
            Ok(Reply::Remaining { remains, .. }) if is_told_first && !remains.ranges.is_empty() => {
                self.phase = Phase::Drop(discards(&remains));
                return;
            }
            Ok(Reply::Done(done)) => done,
            Ok(other) => Err(unexpected(&other)),
            Err(error) => Err(error.code()),
        };
        self.outcome = self.outcome.and(told);
    }

    fn on_transfer(&mut self, results: Vec<Result<(), MoveError>>) {
        match &mut self.phase {
            Phase::Write(write) => write.on_transfer(results),
            Phase::Drop(_) => {
                let failed = results.iter().any(Result::is_err);
                self.outcome = if failed { Err(ErrorCode::TransferFail) } else { Ok(()) };
                self.phase = Phase::End { is_source_dropped: true };
            }
            _ => self.on_read(results.into_iter().find_map(Result::err)),
        }
    }

    fn finish(self) -> Self::Output {
        self.outcome
    }
}
