use std::sync::Arc;

use mooncake_types::{
    ErrorCode, Grant, KeyVersion, Placement, PutEnd, PutItem, PutStart, RangeWrite,
    ReplicateConfig, Reply, Request, SegmentAddress, SegmentId, Tick, Version, limits,
};

use super::batches::{Batches, check_key};
use super::place::{placements_are_whole, replicas};
use super::{CallError, Deposit, MoveError, Op, Step, unexpected};

/// Most segment names that a put may prefer; with the longest names they fit into a frame.
const MAX_PREFERRED_SEGMENTS: usize = 4096;

/// Puts objects: ask for ranges, write them, make them visible.
///
/// A replica whose write failed is reported when the put ends. If all replicas of an object failed, its put is
/// revoked and tried once more without the segments that failed. A key that is taken, or stands earlier in the
/// same batch, is answered with [`ErrorCode::ObjectAlreadyExists`].
#[derive(Debug)]
pub struct PutOp<'a> {
    items: &'a [PutItem<'a>],
    config: ReplicateConfig<'a>,
    excluded_by_caller: usize,
    batches: Batches,
    phase: Phase,
    /// Positions of the last [`Request::PutStart`].
    asked: Vec<usize>,
    is_retry: bool,
    granted: Vec<InPut>,
    results: Vec<Result<(), ErrorCode>>,
}

/// What comes next for the batch under way; a call or transfer that was handed out is awaited in the same phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Start,
    Write,
    End,
    Revoke,
}

/// One put that has a grant.
#[derive(Debug)]
struct InPut {
    position: usize,
    version: Version,
    placements: Vec<Placement>,
    segments: Arc<[SegmentAddress]>,
    fate: Fate,
    /// Bit `i` is set if the write of replica `i` failed.
    failed_replicas: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Unwritten,
    Writing,
    /// At least one replica is in place.
    Written,
    /// No replica is in place; another grant may help.
    Failed,
    /// The grant made no sense.
    Senseless,
}

impl<'a> PutOp<'a> {
    /// Puts `items`, all of them under `config`.
    #[must_use]
    pub fn new(items: &'a [PutItem<'a>], config: &ReplicateConfig<'a>) -> Self {
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
        Self {
            items,
            config: config.clone(),
            excluded_by_caller: config.excluded_segments.len(),
            batches: Batches::new(order),
            phase: Phase::Start,
            asked: Vec::new(),
            is_retry: false,
            granted: Vec::new(),
            results,
        }
    }

    /// The next first attempt, unless a second one has been prepared.
    fn start(&mut self) -> Step<'a> {
        if !self.is_retry {
            let items = self.items;
            self.config.excluded_segments.truncate(self.excluded_by_caller);
            let lens = |position: usize| (items[position].key.len(), items[position].len);
            self.asked = self.batches.take_puts(lens);
        }
        if self.asked.is_empty() {
            return Step::Done;
        }
        let puts = self.asked.iter().map(|&position| self.items[position]).collect();
        Step::Call(Request::PutStart(PutStart { puts, config: self.config.clone() }))
    }

    /// The writes of all puts granted under one epoch; `None` when everything is written.
    fn write(&mut self) -> Option<Step<'a>> {
        let unwritten = |put: &&mut InPut| put.fate == Fate::Unwritten;
        let epoch = self.granted.iter_mut().find(unwritten)?.version.epoch;
        let mut deposits = Vec::with_capacity(self.granted.len());
        for put in self.granted.iter_mut().filter(unwritten) {
            if put.version.epoch == epoch {
                put.fate = Fate::Writing;
                put.deposits_into(&self.items[put.position], &mut deposits);
            }
        }
        Some(Step::Write(epoch, deposits))
    }

    fn end(&self) -> Option<Step<'a>> {
        let ends: Vec<PutEnd<'a>> = self
            .granted
            .iter()
            .filter(|put| put.fate == Fate::Written)
            .map(|put| PutEnd {
                key: self.items[put.position].key,
                version: put.version,
                failed_replicas: put.failed_replicas,
            })
            .collect();
        (!ends.is_empty()).then_some(Step::Call(Request::PutEnd { puts: ends }))
    }

    fn revoke(&self) -> Option<Step<'a>> {
        let puts: Vec<KeyVersion<'a>> = self
            .granted
            .iter()
            .filter(|put| put.fate != Fate::Written)
            .map(|put| KeyVersion { key: self.items[put.position].key, version: put.version })
            .collect();
        (!puts.is_empty()).then_some(Step::Call(Request::PutRevoke { puts }))
    }

    /// After the batch's last call: prepares the second attempt of what failed, or ends the batch.
    fn end_batch(&mut self) {
        let retry_is_due = !self.is_retry;
        self.asked.clear();
        for put in std::mem::take(&mut self.granted) {
            match put.fate {
                Fate::Failed if retry_is_due => {
                    self.results[put.position] = Err(ErrorCode::TransferFail);
                    self.asked.push(put.position);
                }
                Fate::Failed => self.results[put.position] = Err(ErrorCode::TransferFail),
                Fate::Senseless => self.results[put.position] = Err(ErrorCode::InternalError),
                Fate::Unwritten | Fate::Writing | Fate::Written => {}
            }
        }
        self.is_retry = retry_is_due && !self.asked.is_empty();
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
                    let len = self.items[position].len;
                    self.granted.push(InPut::new(position, grant, len, Arc::clone(&segments)));
                }
                // That nothing but the failed segments has room is no news to the caller; the failure is.
                Err(ErrorCode::NoAvailableHandle) if self.is_retry => {}
                Err(code) => self.results[position] = Err(code),
            }
        }
        self.phase = Phase::Write;
    }

    fn on_ended(&mut self, statuses: &[Result<(), ErrorCode>]) {
        let written = self.granted.iter().filter(|put| put.fate == Fate::Written);
        for (put, status) in written.zip(statuses) {
            self.results[put.position] = *status;
        }
        self.phase = Phase::Revoke;
    }

    fn fail_all(&mut self, positions: &[usize], code: ErrorCode) {
        for &position in positions {
            self.results[position] = Err(code);
        }
    }

    /// The master is gone: what is under way ends as far as it got, what was not begun is not tried.
    fn give_up(&mut self, code: ErrorCode) {
        let asked = std::mem::take(&mut self.asked);
        if self.phase == Phase::Start && !self.is_retry {
            self.fail_all(&asked, code);
        }
        for put in std::mem::take(&mut self.granted) {
            let failed = put.fate == Fate::Failed;
            let code = if failed { ErrorCode::TransferFail } else { code };
            // Once the ends have been answered only what was to be revoked is still open.
            if self.phase != Phase::Revoke || put.fate != Fate::Written {
                self.results[put.position] = Err(code);
            }
        }
        let rest = self.batches.take_rest();
        self.fail_all(&rest, code);
        self.is_retry = false;
        self.phase = Phase::Start;
    }

    /// The call of this phase was refused or answered with nonsense.
    fn on_refused(&mut self, code: ErrorCode) {
        match self.phase {
            Phase::Start => {
                let asked = std::mem::take(&mut self.asked);
                self.fail_all(&asked, code);
                self.is_retry = false;
            }
            Phase::Write => unreachable!("nothing is asked of the master while writing"),
            Phase::End => {
                let count = self.granted.len();
                self.on_ended(&vec![Err(code); count]);
            }
            Phase::Revoke => self.end_batch(),
        }
    }

    fn written_count(&self) -> usize {
        self.granted.iter().filter(|put| put.fate == Fate::Written).count()
    }
}

impl<'a> Op<'a> for PutOp<'a> {
    type Output = Vec<Result<(), ErrorCode>>;

    fn next(&mut self, _now: Tick) -> Step<'a> {
        loop {
            match self.phase {
                Phase::Start => return self.start(),
                Phase::Write => match self.write() {
                    Some(step) => return step,
                    None => self.phase = Phase::End,
                },
                Phase::End => match self.end() {
                    Some(step) => return step,
                    None => self.phase = Phase::Revoke,
                },
                Phase::Revoke => match self.revoke() {
                    Some(step) => return step,
                    None => self.end_batch(),
                },
            }
        }
    }

    fn on_reply(&mut self, _now: Tick, reply: Result<Reply, CallError>) {
        let reply = match reply {
            Ok(reply) => reply,
            Err(error) => return self.give_up(error.code()),
        };
        match (self.phase, reply) {
            (Phase::Start, Reply::Granted { results, segments })
                if results.len() == self.asked.len() =>
            {
                self.on_granted(results, segments);
            }
            (Phase::End, Reply::Statuses(statuses)) if statuses.len() == self.written_count() => {
                self.on_ended(&statuses);
            }
            // Whatever became of the revoke: what was granted is released after a while.
            (Phase::Revoke, _) => self.end_batch(),
            (_, other) => self.on_refused(unexpected(&other)),
        }
    }

    fn on_transfer(&mut self, results: Vec<Result<(), MoveError>>) {
        let mut rest = results.as_slice();
        let mut unreachable_segments = Vec::new();
        for put in self.granted.iter_mut().filter(|put| put.fate == Fate::Writing) {
            let (mine, after) = rest.split_at(put.placements.len());
            rest = after;
            put.on_written(mine, &mut unreachable_segments);
        }
        assert!(rest.is_empty(), "one result per range");
        for segment in unreachable_segments {
            self.exclude(segment);
        }
    }

    fn finish(self) -> Self::Output {
        self.results
    }
}

impl InPut {
    fn new(position: usize, grant: Grant, len: u64, segments: Arc<[SegmentAddress]>) -> Self {
        let Grant { version, placements } = grant;
        let whole = placements_are_whole(&placements, &segments, len);
        let fate = if whole { Fate::Unwritten } else { Fate::Senseless };
        Self { position, version, placements, segments, fate, failed_replicas: 0 }
    }

    fn deposits_into<'a>(&self, item: &PutItem<'a>, deposits: &mut Vec<Deposit<'a>>) {
        for ranges in replicas(&self.placements) {
            let mut object_offset = 0;
            for range in ranges {
                let segment = &self.segments[range.segment as usize];
                deposits.push(Deposit {
                    position: self.position,
                    endpoint: Arc::clone(&segment.endpoint),
                    range: RangeWrite {
                        segment: segment.id,
                        offset: range.offset,
                        len: range.len,
                        key: item.key,
                        version: self.version,
                        object_len: item.len,
                        object_offset,
                    },
                });
                object_offset += range.len;
            }
        }
    }

    /// Takes the results of all ranges and names the segments that a second attempt should avoid: those that
    /// could not be written at all, not those that refused this one grant.
    fn on_written(&mut self, results: &[Result<(), MoveError>], avoid: &mut Vec<SegmentId>) {
        let mut granted = 0u32;
        for (range, result) in self.placements.iter().zip(results) {
            let bit = 1 << range.replica;
            granted |= bit;
            if let Err(error) = result {
                self.failed_replicas |= bit;
                if *error == MoveError::Broken {
                    avoid.push(self.segments[range.segment as usize].id);
                }
            }
        }
        let all_failed = self.failed_replicas == granted;
        self.fate = if all_failed { Fate::Failed } else { Fate::Written };
    }
}

fn check_item(item: &PutItem<'_>) -> Result<(), ErrorCode> {
    check_key(item.key)?;
    if item.len == 0 || item.len > limits::MAX_OBJECT_BYTES {
        return Err(ErrorCode::InvalidParams);
    }
    Ok(())
}

fn check_config(config: &ReplicateConfig<'_>) -> Result<(), ErrorCode> {
    let names = &config.preferred_segments;
    let valid = (1..=limits::MAX_REPLICAS).contains(&config.replica_num)
        && names.len() <= MAX_PREFERRED_SEGMENTS
        && names.iter().all(|name| name.len() <= limits::MAX_NAME_BYTES)
        && config.excluded_segments.len() <= limits::MAX_SEGMENTS;
    if valid { Ok(()) } else { Err(ErrorCode::InvalidParams) }
}
