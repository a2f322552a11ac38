use mooncake_types::{ErrorCode, SegmentId, Tick};
use smallvec::smallvec;

use super::granted::Granted;
use super::start::GrantedPut;
use crate::op::{MoveError, Op, Step};
use crate::span::{Span, Spans};

/// The second stage of a put: writes bytes to all replicas that did not fail yet.
#[derive(Debug, Default)]
pub struct Write<'a> {
    writes: Vec<PutWrite<'a>>,
    unreachable: Vec<SegmentId>,
}

/// One write of some bytes of a put, and how far it is.
#[derive(Clone, Debug)]
pub struct PutWrite<'a> {
    pub(super) put: GrantedPut<'a>,
    pub(super) spans: Spans,
    state: WriteState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriteState {
    Waiting,
    UnderWay,
    /// It is over, and `put` knows which replicas failed. Holds the first refusal of a node, if there was one.
    Written(Option<ErrorCode>),
}

impl<'a> PutWrite<'a> {
    /// All bytes of an object.
    pub(crate) fn whole(put: GrantedPut<'a>) -> Self {
        let whole = Span::whole(put.granted.object_len);
        Self::of(put, smallvec![whole])
    }

    /// Some of its bytes.
    pub(crate) fn of(put: GrantedPut<'a>, spans: Spans) -> Self {
        Self { put, spans, state: WriteState::Waiting }
    }

    /// The place of the item in the caller's batch.
    #[must_use]
    pub const fn position(&self) -> usize {
        self.put.position
    }

    /// The object's key.
    #[must_use]
    pub const fn key(&self) -> &'a str {
        self.put.key
    }

    /// The grant, with the replicas that failed.
    pub(crate) fn granted(&self) -> &Granted {
        &self.put.granted
    }

    /// Why a replica lacks the bytes: a node's refusal, or else [`ErrorCode::TransferFail`].
    pub(crate) fn failure(&self) -> ErrorCode {
        match self.state {
            WriteState::Written(Some(refusal)) => refusal,
            _ => ErrorCode::TransferFail,
        }
    }
}

impl<'a> Write<'a> {
    /// Writes all of these.
    #[must_use]
    pub fn new(writes: Vec<PutWrite<'a>>) -> Self {
        Self { writes, unreachable: Vec::new() }
    }

    /// The segments that could not be written at all.
    pub(super) fn unreachable(&self) -> &[SegmentId] {
        &self.unreachable
    }
}

impl<'a> Op<'a> for Write<'a> {
    /// The writes, each with what failed.
    type Output = Vec<PutWrite<'a>>;

    /// Writes everything that waits and was granted under one epoch.
    fn next(&mut self, _now: Tick) -> Step<'a> {
        let waiting = |write: &&mut PutWrite<'a>| write.state == WriteState::Waiting;
        let Some(first) = self.writes.iter_mut().find(waiting) else { return Step::Done };
        let epoch = first.put.granted.epoch();
        let mut deposits = Vec::with_capacity(self.writes.len());
        for write in self.writes.iter_mut().filter(waiting) {
            let PutWrite { put: GrantedPut { position, key, granted }, spans, state } = write;
            if granted.epoch() == epoch {
                *state = WriteState::UnderWay;
                granted.deposits_into((*position, key), spans, &mut deposits);
            }
        }
        Step::Write(epoch, deposits)
    }

    fn on_transfer(&mut self, results: Vec<Result<(), MoveError>>) {
        let mut results = results.into_iter();
        for PutWrite { put, spans, state } in &mut self.writes {
            if *state == WriteState::UnderWay {
                let refusal = put.granted.on_written(spans, &mut results, &mut self.unreachable);
                *state = WriteState::Written(refusal);
            }
        }
        assert!(results.next().is_none(), "one range per result");
    }

    fn finish(self) -> Vec<PutWrite<'a>> {
        self.writes
    }
}
