use std::sync::Arc;

use mooncake_types::{
    ErrorCode, Grant, PutEnd, PutItem, PutMode, PutRevoke, PutStart, ReplicateConfig, Reply,
    Request, SegmentAddress, SegmentId, Tick, limits,
};

use super::batches::Batches;
use super::ending::{Ended, Ending};
use super::granted::Granted;
use super::put_check::{check_config, check_item, keep_last};
use super::span::Span;
use super::{CallError, MoveError, Op, RetryPolicy, Step, unexpected};

/// Puts objects: ask for ranges, write them, make them visible; have the nodes drop what readers may hold of older
/// versions.
///
/// A replica whose write failed is reported when the put ends. If all replicas of an object failed, or are gone by the
/// time the put ends, it is revoked and tried once more without the segments that failed; several times more if somebody at a
/// node does not let go of a range, or if newer upserts of the key overtake this one. A key that is taken, or stands earlier in
/// the same batch, is answered with [`ErrorCode::ObjectAlreadyExists`].
///
/// An upsert takes the place of the object that has the key. Of items of one key in one call the last is stored, and
/// its result is that of all of them: the others would be gone by the time the call returns.
#[derive(Debug)]
pub struct PutOp<'a> {
    items: &'a [PutItem<'a>],
    config: ReplicateConfig<'a>,
    excluded_by_caller: usize,
    batches: Batches,
    phase: Phase,
    mode: PutMode,
    /// By position: the later item of the same call that is stored in its place, if there is one.
    overwritten_by: Vec<Option<usize>>,
    /// Positions of the last [`Request::PutStart`].
    asked: Vec<usize>,
    /// How often what is asked for was tried before.
    attempt: u32,
    granted: Vec<InPut>,
    ending: Ending<'a>,
    results: Vec<Result<(), ErrorCode>>,
}

/// What comes next for the batch under way; a call or transfer that was handed out is awaited in the same phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Start,
    Write,
    /// They are published, and what they take the place of is dropped by its nodes.
    End,
    /// What was written in vain is dropped, as far as its nodes can be reached.
    Discard,
    Revoke,
}

/// One put that has a grant.
#[derive(Debug)]
struct InPut {
    position: usize,
    granted: Granted,
    fate: Fate,
    /// Bit `i` is set if the write of replica `i` failed.
    failed_replicas: u32,
    held_replicas: u32,
    /// Has a node been told of a newer version before it was written?
    is_outdated: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Unwritten,
    Writing,
    /// At least one replica is in place.
    Written,
    /// The master has said what becomes of it.
    Ended,
    /// Whether it was ended, and all is dropped that it took the place of, is not known.
    Unknown,
    /// It could not be ended, and another grant would not help.
    Refused,
    /// No replica is in place; another grant may help.
    Failed,
    /// The grant made no sense.
    Senseless,
}

impl<'a> PutOp<'a> {
    /// Puts `items`, all of them under `config`.
    #[must_use]
    pub fn new(items: &'a [PutItem<'a>], config: &ReplicateConfig<'a>) -> Self {
        Self::with_mode(items, config, PutMode::Insert)
    }

    /// Puts `items` whether or not their keys are taken.
    #[must_use]
    pub fn upsert(items: &'a [PutItem<'a>], config: &ReplicateConfig<'a>) -> Self {
        Self::with_mode(items, config, PutMode::Upsert)
    }

    fn with_mode(items: &'a [PutItem<'a>], config: &ReplicateConfig<'a>, mode: PutMode) -> Self {
        let config_fault = check_config(config).err();
        let mut order = Vec::with_capacity(items.len());
        let mut results = Vec::with_capacity(items.len());
        for (position, item) in items.iter().enumerate() {
            let fault = config_fault.or_else(|| check_item(item).err());
            if fault.is_none() {
                order.push(position);
            }
            results.push(Err(fault.unwrap_or(ErrorCode::InternalError)));
        }
        let overwritten_by = match mode {
            PutMode::Insert => Vec::new(),
            PutMode::Upsert => keep_last(items, &mut order),
        };
        Self {
            items,
            config: config.clone(),
            excluded_by_caller: config.excluded_segments.len(),
            batches: Batches::new(order),
            phase: Phase::Start,
            mode,
            overwritten_by,
            asked: Vec::new(),
            attempt: 0,
            granted: Vec::new(),
            ending: Ending::default(),
            results,
        }
    }

    /// The next first attempt, unless a second one has been prepared.
    fn start(&mut self) -> Step<'a> {
        if self.attempt == 0 {
            let items = self.items;
            self.config.excluded_segments.truncate(self.excluded_by_caller);
            let lens = |position: usize| {
                let PutItem { key, len, group } = items[position];
                (key.len() + group.len(), len)
            };
            self.asked = self.batches.take_puts(lens);
        }
        if self.asked.is_empty() {
            return Step::Done;
        }
        let puts = self.asked.iter().map(|&position| self.items[position]).collect();
        Step::Call(Request::PutStart(PutStart {
            puts,
            config: self.config.clone(),
            mode: self.mode,
        }))
    }

    /// The writes of all puts granted under one epoch; `None` when everything is written.
    fn write(&mut self) -> Option<Step<'a>> {
        let unwritten = |put: &&mut InPut| put.fate == Fate::Unwritten;
        let epoch = self.granted.iter_mut().find(unwritten)?.granted.version.epoch;
        let mut deposits = Vec::with_capacity(self.granted.len());
        for put in self.granted.iter_mut().filter(unwritten) {
            if put.granted.version.epoch == epoch {
                put.fate = Fate::Writing;
                let item = (put.position, self.items[put.position].key);
                put.granted.deposits_into(item, &put.spans(), 0, &mut deposits);
            }
        }
        Some(Step::Write(epoch, deposits))
    }

    /// The ends of all puts that are in place.
    fn begin_ending(&mut self) {
        let written = self.granted.iter().filter(|put| put.fate == Fate::Written);
        let end = |put: &InPut| PutEnd {
            key: self.items[put.position].key,
            version: put.granted.version,
            failed_replicas: put.failed_replicas,
            held_replicas: put.held_replicas,
        };
        self.ending = Ending::new(written.map(end).collect());
        self.phase = Phase::End;
    }

    /// What nodes hold of puts that came to nothing: a later leader is not to find it.
    fn discard(&self) -> Option<Step<'a>> {
        let mut discards = Vec::new();
        for put in self.granted.iter().filter(|put| self.is_in_vain(put)) {
            put.granted.discards_into(put.failed_replicas, &mut discards);
        }
        (!discards.is_empty()).then_some(Step::Drop(discards))
    }

    fn is_in_vain(&self, put: &InPut) -> bool {
        match put.fate {
            Fate::Ended => self.results[put.position].is_err(),
            fate => !matches!(fate, Fate::Unknown | Fate::Senseless),
        }
    }

    fn revoke(&self) -> Option<Step<'a>> {
        let puts: Vec<PutRevoke<'a>> = self
            .granted
            .iter()
            .filter(|put| !matches!(put.fate, Fate::Ended | Fate::Unknown))
            .map(|put| PutRevoke {
                key: self.items[put.position].key,
                version: put.granted.version,
                held_replicas: put.held_replicas,
            })
            .collect();
        (!puts.is_empty()).then_some(Step::Call(Request::PutRevoke { puts }))
    }

    /// After the batch's last call: prepares the second attempt of what failed, or ends the batch.
    fn end_batch(&mut self) {
        self.asked.clear();
        for put in std::mem::take(&mut self.granted) {
            match put.fate {
                Fate::Failed => {
                    self.results[put.position] = Err(ErrorCode::TransferFail);
                    let is_overtaken = put.is_outdated && self.mode == PutMode::Upsert;
                    let is_contended = put.held_replicas != 0 || is_overtaken;
                    let policy = match is_contended {
                        true => RetryPolicy::CONTENDED_PUT,
                        false => RetryPolicy::PUT,
                    };
                    if policy.allows(self.attempt + 1) {
                        self.asked.push(put.position);
                    }
                }
                Fate::Senseless => self.results[put.position] = Err(ErrorCode::InternalError),
                _ => {}
            }
        }
        self.attempt = if self.asked.is_empty() { 0 } else { self.attempt + 1 };
        self.phase = Phase::Start;
    }

    fn exclude(&mut self, segment: SegmentId) {
        let excluded = &mut self.config.excluded_segments;
        if !excluded.contains(&segment) && excluded.len() < limits::MAX_SEGMENTS {
            excluded.push(segment);
        }
    }

    fn on_granted(&mut self, grants: Vec<Result<Grant, ErrorCode>>, segments: Vec<SegmentAddress>) {
        let segments: Arc<[SegmentAddress]> = segments.into();
        for (position, grant) in std::mem::take(&mut self.asked).into_iter().zip(grants) {
            match grant {
                Ok(grant) => {
                    let object_len = self.items[position].len;
                    let granted = Granted::of_put(grant, object_len, &segments);
                    self.granted.push(InPut::new(position, granted));
                }
                // That nothing but the failed segments has room is no news to the caller; the failure is.
                Err(ErrorCode::NoAvailableHandle) if self.attempt > 0 => {}
                Err(code) => self.results[position] = Err(code),
            }
        }
        self.phase = Phase::Write;
    }

    fn on_ended(&mut self) {
        let outcomes = std::mem::take(&mut self.ending).outcomes();
        let written = self.granted.iter_mut().filter(|put| put.fate == Fate::Written);
        for (put, ended) in written.zip(outcomes) {
            let (fate, result) = match ended {
                // All segments that it was written to have left the pool meanwhile, or its master has.
                Ended::Settled(result @ Err(ErrorCode::ObjectNotFound)) if self.attempt == 0 => {
                    (Fate::Failed, result)
                }
                Ended::Settled(result) => (Fate::Ended, result),
                Ended::Refused(code) => (Fate::Refused, Err(code)),
                Ended::Unknown(code) => (Fate::Unknown, Err(code)),
            };
            (put.fate, self.results[put.position]) = (fate, result);
        }
        self.phase = Phase::Discard;
    }

    fn fail_all(&mut self, positions: &[usize], code: ErrorCode) {
        for &position in positions {
            self.results[position] = Err(code);
        }
    }

    /// The master is gone: what is under way ends as far as it got, what was not begun is not tried.
    fn give_up(&mut self, code: ErrorCode) {
        let asked = std::mem::take(&mut self.asked);
        if self.phase == Phase::Start && self.attempt == 0 {
            self.fail_all(&asked, code);
        }
        for put in std::mem::take(&mut self.granted) {
            let failed = put.fate == Fate::Failed;
            let code = if failed { ErrorCode::TransferFail } else { code };
            if !matches!(put.fate, Fate::Ended | Fate::Unknown) {
                self.results[put.position] = Err(code);
            }
        }
        let rest = self.batches.take_rest();
        self.fail_all(&rest, code);
        self.attempt = 0;
        self.phase = Phase::Start;
    }
}

impl<'a> Op<'a> for PutOp<'a> {
    type Output = Vec<Result<(), ErrorCode>>;

    fn batch(&self) -> u64 {
        self.batches.begun()
    }

    fn next(&mut self, now: Tick) -> Step<'a> {
        loop {
            match self.phase {
                Phase::Start => return self.start(),
                Phase::Write => match self.write() {
                    Some(step) => return step,
                    None => self.begin_ending(),
                },
                Phase::End => match self.ending.next(now) {
                    Some(step) => return step,
                    None => self.on_ended(),
                },
                Phase::Discard => {
                    self.phase = Phase::Revoke;
                    if let Some(step) = self.discard() {
                        return step;
                    }
                }
                Phase::Revoke => match self.revoke() {
                    Some(step) => return step,
                    None => self.end_batch(),
                },
            }
        }
    }

    fn on_reply(&mut self, _now: Tick, reply: Result<Reply, CallError>) {
        if self.phase == Phase::End {
            if let Some(code) = self.ending.on_reply(reply) {
                self.on_ended();
                self.give_up(code);
            }
            return;
        }
        match (self.phase, reply) {
            (_, Err(error)) => self.give_up(error.code()),
            (Phase::Start, Ok(Reply::Granted { results, segments }))
                if results.len() == self.asked.len() =>
            {
                self.on_granted(results, segments);
            }
            (Phase::Start, Ok(other)) => {
                let asked = std::mem::take(&mut self.asked);
                self.fail_all(&asked, unexpected(&other));
                self.attempt = 0;
            }
            // Whatever became of the revoke: what was granted is released after a while.
            _ => self.end_batch(),
        }
    }

    fn on_transfer(&mut self, results: Vec<Result<(), MoveError>>) {
        match self.phase {
            Phase::End => return self.ending.on_dropped(&results),
            // Those that were not reached tell the master what they hold when it asks.
            Phase::Revoke => return,
            _ => {}
        }
        let mut rest = results.as_slice();
        let mut unreachable_segments = Vec::new();
        for put in self.granted.iter_mut().filter(|put| put.fate == Fate::Writing) {
            let (mine, after) = rest.split_at(put.granted.placements.len());
            rest = after;
            put.on_written(mine, &mut unreachable_segments);
        }
        assert!(rest.is_empty(), "one result per range");
        for segment in unreachable_segments {
            self.exclude(segment);
        }
    }

    fn finish(mut self) -> Self::Output {
        for (position, stored) in self.overwritten_by.iter().enumerate() {
            if let Some(stored) = *stored {
                self.results[position] = self.results[stored];
            }
        }
        self.results
    }
}

impl InPut {
    fn new(position: usize, granted: Granted) -> Self {
        let fate = if granted.makes_sense() { Fate::Unwritten } else { Fate::Senseless };
        let (failed_replicas, held_replicas) = (0, 0);
        Self { position, granted, fate, failed_replicas, held_replicas, is_outdated: false }
    }

    fn spans(&self) -> [Span; 1] {
        [Span::whole(self.granted.object_len)]
    }

    fn on_written(&mut self, results: &[Result<(), MoveError>], unreachable: &mut Vec<SegmentId>) {
        let failed = self.granted.failed_replicas(&self.spans(), 0, results, unreachable);
        (self.failed_replicas, self.held_replicas) = (failed.all, failed.held);
        self.is_outdated = failed.outdated != 0;
        let all_failed = failed.all == self.granted.replica_bits();
        self.fate = if all_failed { Fate::Failed } else { Fate::Written };
    }
}
