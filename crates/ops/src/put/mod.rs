//! Puts, in four stages, each a small machine: `start.rs` asks for ranges, `write.rs` writes them, `end.rs` publishes
//! the objects, `give_up.rs` revokes the puts that failed. An operation says which stage follows which
//! (`composed.rs`): a put below goes through all four, a put session (`session_calls.rs`) through one or two with
//! each call; a copy only writes.

mod check;
mod composed;
mod coverage;
mod end;
mod give_up;
mod granted;
mod session;
mod session_calls;
mod start;
mod write;

use mooncake_types::{ErrorCode, PutItem, PutMode, ReplicateConfig, SegmentId, limits};

pub use give_up::CloseOutcome;
pub(crate) use granted::Granted;
pub use session::{Closing, PutSession};
pub use session_calls::{CloseOp, PutPartsOp, StartOp};
pub(crate) use start::GrantedPut;
pub use write::PutWrite;
pub(crate) use write::Write;

use crate::op::Op;
use crate::retry::RetryPolicy;
use check::{check, keep_last};
use composed::{Composition, Stage, StagedOp};
use end::{End, EndOutcome};
use give_up::GiveUp;
use start::{RoomPatience, RoomPause, Start, Started};

/// Puts objects: asks for ranges, writes them, publishes the objects, and has nodes drop older versions that readers
/// may still find.
///
/// The end of a put reports the replicas whose write failed. A put is given up if all its replicas failed, or left
/// the pool before its end. It is then tried once more without the segments that failed. It gets several more tries
/// if another user of a node still holds a range, or if newer upserts of the key overtake it. A key that is taken, or
/// occurs earlier in the same batch, is answered with [`ErrorCode::ObjectAlreadyExists`].
///
/// An upsert replaces the object that has the key. Of several items with one key, only the last is stored, and all of
/// them get its result.
pub type PutOp<'a> = StagedOp<'a, Put<'a>>;

/// See [`PutOp`].
#[derive(Debug)]
pub struct Put<'a> {
    items: &'a [PutItem<'a>],
    config: ReplicateConfig<'a>,
    excluded_by_caller: usize,
    mode: PutMode,
    /// By position: the later item of the same call that is stored in its place, if there is one.
    overwritten_by: Vec<Option<usize>>,
    /// How many attempts failed before the current one.
    attempt: u32,
    /// Puts that are being published.
    written: Vec<GrantedPut<'a>>,
    /// Puts that failed in this attempt.
    in_vain: GiveUp<'a>,
    /// Positions of the failed items that are tried again.
    again: Vec<usize>,
    /// Positions to ask for again after the pause, because there will be room for them, or there may be.
    waiting: Vec<usize>,
    pause: Option<RoomPause>,
    patience: RoomPatience,
    results: Vec<Result<(), ErrorCode>>,
}

impl<'a> PutOp<'a> {
    /// Puts `items`, all of them under `config`.
    #[must_use]
    pub fn new(items: &'a [PutItem<'a>], config: &ReplicateConfig<'a>) -> Self {
        Self::of(items, config, PutMode::Insert)
    }

    /// Puts `items` whether or not their keys are taken.
    #[must_use]
    pub fn upsert(items: &'a [PutItem<'a>], config: &ReplicateConfig<'a>) -> Self {
        Self::of(items, config, PutMode::Upsert)
    }

    fn of(items: &'a [PutItem<'a>], config: &ReplicateConfig<'a>, mode: PutMode) -> Self {
        let (mut positions, results) = check(items, config);
        let overwritten_by = match mode {
            PutMode::Insert => Vec::new(),
            PutMode::Upsert => keep_last(items, &mut positions),
        };
        let put = Put {
            items,
            config: config.clone(),
            excluded_by_caller: config.excluded_segments.len(),
            mode,
            overwritten_by,
            attempt: 0,
            written: Vec::new(),
            in_vain: GiveUp::default(),
            again: Vec::new(),
            waiting: Vec::new(),
            pause: None,
            patience: RoomPatience::default(),
            results,
        };
        Self::with(put, positions)
    }

    /// Waits up to this long for room in a full pool, and not longer than the call's deadline. Without it, a put waits
    /// only while the master makes room.
    #[must_use]
    pub fn patient(mut self, ms: u64) -> Self {
        self.verb.patience = RoomPatience::of_ms(ms);
        self
    }
}

impl<'a> Composition<'a> for Put<'a> {
    type Output = Vec<Result<(), ErrorCode>>;

    fn lens(&self, position: usize) -> (usize, u64) {
        let PutItem { key, len, group, session } = self.items[position];
        (key.len() + group.len() + session.len(), len)
    }

    fn begin(&mut self, batch: Vec<usize>) -> Stage<'a> {
        self.attempt = 0;
        self.patience = self.patience.afresh();
        self.config.excluded_segments.truncate(self.excluded_by_caller);
        Stage::Start(self.start(batch))
    }

    fn after(&mut self, ended: Stage<'a>) -> Option<Stage<'a>> {
        match ended {
            Stage::Start(start) => {
                self.patience = start.patience();
                Some(Stage::Write(self.on_started(start.finish())))
            }
            Stage::Write(write) => Some(Stage::End(self.on_written(write))),
            Stage::End(end) => Some(Stage::GiveUp(self.on_ended(end.finish()))),
            Stage::GiveUp(_) => self.start_again(),
        }
    }

    fn give_up(&mut self, rest: Vec<usize>, code: ErrorCode) {
        for position in rest {
            self.results[position] = Err(code);
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

impl<'a> Put<'a> {
    fn start(&self, positions: Vec<usize>) -> Start<'a> {
        Start::new(self.items, positions, &self.config, self.mode).patient(self.patience)
    }

    fn start_again(&mut self) -> Option<Stage<'a>> {
        let mut again = std::mem::take(&mut self.again);
        self.attempt += u32::from(!again.is_empty());
        again.append(&mut self.waiting);
        let pause = self.pause.take();
        (!again.is_empty()).then(|| self.start(again).after(pause)).map(Stage::Start)
    }

    fn on_started(&mut self, started: Started<'a>) -> Write<'a> {
        for (position, code) in started.refused {
            // A retry that finds no room, or no master, keeps the error of the first attempt, which tells the caller
            // more.
            let is_news = !matches!(
                code,
                ErrorCode::NoAvailableHandle | ErrorCode::RpcFail | ErrorCode::RpcTimeout
            );
            if self.attempt == 0 || is_news {
                self.results[position] = Err(code);
            }
        }
        for &position in started.waiting.iter().filter(|_| self.attempt == 0) {
            self.results[position] = Err(ErrorCode::NoAvailableHandle);
        }
        (self.waiting, self.pause) = (started.waiting, started.pause);
        self.in_vain.puts.extend(started.senseless);
        Write::new(started.granted.into_iter().map(PutWrite::whole).collect())
    }

    fn on_written(&mut self, write: Write<'a>) -> End<'a> {
        write.unreachable().iter().for_each(|&segment| self.exclude(segment));
        for PutWrite { put, .. } in write.finish() {
            if put.granted.has_failed_everywhere() {
                self.fail(&put);
            } else {
                self.written.push(put);
            }
        }
        End::new(self.written.iter().map(|put| put.granted.ending(put.key)))
    }

    fn on_ended(&mut self, outcomes: Vec<EndOutcome>) -> GiveUp<'a> {
        for (put, ended) in std::mem::take(&mut self.written).into_iter().zip(outcomes) {
            self.results[put.position] = match ended {
                // All segments that it was written to have left the pool meanwhile, or another master leads it.
                EndOutcome::Settled(Err(ErrorCode::ObjectNotFound)) if self.attempt == 0 => {
                    self.in_vain.discard(&put);
                    self.fail(&put);
                    Err(ErrorCode::TransferFail)
                }
                EndOutcome::Settled(result) => {
                    if result.is_err() {
                        self.in_vain.discard(&put);
                    }
                    result
                }
                EndOutcome::Refused(code) => {
                    self.in_vain.discard(&put);
                    self.in_vain.revoke(&put);
                    Err(code)
                }
                EndOutcome::Unknown(code) => Err(code),
            };
        }
        std::mem::take(&mut self.in_vain)
    }

    /// Gives up a put without a written replica, and tries again if the policy allows: another grant may help.
    fn fail(&mut self, put: &GrantedPut<'a>) {
        self.results[put.position] = Err(ErrorCode::TransferFail);
        self.in_vain.revoke(put);
        let is_overtaken = put.granted.failed.outdated != 0 && self.mode == PutMode::Upsert;
        let policy = match put.granted.failed.held != 0 || is_overtaken {
            true => RetryPolicy::CONTENDED_PUT,
            false => RetryPolicy::PUT,
        };
        if policy.allows(self.attempt + 1) {
            self.again.push(put.position);
        }
    }

    fn exclude(&mut self, segment: SegmentId) {
        let excluded = &mut self.config.excluded_segments;
        if !excluded.contains(&segment) && excluded.len() < limits::MAX_SEGMENTS {
            excluded.push(segment);
        }
    }
}
