use std::sync::Arc;

use mooncake_types::{
    ErrorCode, Grant, PutEnd, PutItem, PutMode, PutRevoke, PutStart, ReplicateConfig, Reply,
    Request, SegmentAddress, Tick,
};

use super::batches::Batches;
use super::ending::{Ended, Ending};
use super::granted::Granted;
use super::open_put::OpenPut;
use super::put_check::{check_config, check_item};
use super::{CallError, MoveError, Op, Step, unexpected};

/// Asks for ranges to write objects to, part by part, for as long as `ttl_ms`.
#[derive(Debug)]
pub struct StartOp<'a> {
    items: &'a [PutItem<'a>],
    config: ReplicateConfig<'a>,
    ttl_ms: u64,
    batches: Batches,
    asked: Vec<usize>,
    asked_at: Tick,
    /// Grants that made no sense.
    senseless: Vec<PutRevoke<'a>>,
    results: Vec<Result<OpenPut, ErrorCode>>,
}

impl<'a> StartOp<'a> {
    /// Starts puts of `items`, all of them under `config`.
    #[must_use]
    pub fn new(items: &'a [PutItem<'a>], config: &ReplicateConfig<'a>, ttl_ms: u64) -> Self {
        let config_fault = check_config(config).err();
        let faults = items.iter().map(|item| config_fault.or_else(|| check_item(item).err()));
        let faults: Vec<_> = faults.collect();
        let sound = |&position: &usize| faults[position].is_none();
        let order = (0..items.len()).filter(sound).collect();
        let unasked = |fault: &Option<ErrorCode>| Err(fault.unwrap_or(ErrorCode::InternalError));
        Self {
            items,
            config: config.clone(),
            ttl_ms,
            batches: Batches::new(order),
            asked: Vec::new(),
            asked_at: Tick::ZERO,
            senseless: Vec::new(),
            results: faults.iter().map(unasked).collect(),
        }
    }

    fn accept(&mut self, grants: Vec<Result<Grant, ErrorCode>>, segments: Vec<SegmentAddress>) {
        let segments: Arc<[SegmentAddress]> = segments.into();
        let expires_at = self.asked_at.after_ms(self.ttl_ms);
        for (position, grant) in std::mem::take(&mut self.asked).into_iter().zip(grants) {
            let item = &self.items[position];
            self.results[position] = grant.and_then(|grant| {
                let version = grant.version;
                let granted = Granted::of_put(grant, item.len, &segments);
                if granted.makes_sense() {
                    return Ok(OpenPut::new(granted, expires_at));
                }
                self.senseless.push(PutRevoke::new(item.key, version));
                Err(ErrorCode::InternalError)
            });
        }
    }

    fn fail(&mut self, positions: &[usize], code: ErrorCode) {
        for &position in positions {
            self.results[position] = Err(code);
        }
    }
}

impl<'a> Op<'a> for StartOp<'a> {
    type Output = Vec<Result<OpenPut, ErrorCode>>;

    fn batch(&self) -> u64 {
        self.batches.begun()
    }

    fn next(&mut self, now: Tick) -> Step<'a> {
        if !self.senseless.is_empty() {
            let puts = std::mem::take(&mut self.senseless);
            return Step::Call(Request::PutRevoke { puts });
        }
        let items = self.items;
        self.asked_at = now;
        self.asked = self.batches.take_puts(|position| {
            let PutItem { key, len, group } = items[position];
            (key.len() + group.len(), len)
        });
        if self.asked.is_empty() {
            return Step::Done;
        }
        let puts = self.asked.iter().map(|&position| items[position]).collect();
        let config = self.config.clone();
        Step::Call(Request::PutStart(PutStart { puts, config, mode: PutMode::Insert }))
    }

    fn on_reply(&mut self, _now: Tick, reply: Result<Reply, CallError>) {
        if self.asked.is_empty() {
            // Whatever became of a revocation: what was granted is released after a while.
            return;
        }
        let code = match reply {
            Ok(Reply::Granted { results, segments }) if results.len() == self.asked.len() => {
                return self.accept(results, segments);
            }
            Ok(other) => unexpected(&other),
            Err(error) => {
                let rest = self.batches.take_rest();
                self.fail(&rest, error.code());
                error.code()
            }
        };
        let asked = std::mem::take(&mut self.asked);
        self.fail(&asked, code);
    }

    fn on_transfer(&mut self, _results: Vec<Result<(), MoveError>>) {
        unreachable!("starting moves no bytes");
    }

    fn finish(self) -> Self::Output {
        self.results
    }
}

/// What the master is told of an open put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing<'a> {
    /// Publish it.
    End(PutEnd<'a>),
    /// Give it up.
    Revoke(PutRevoke<'a>),
}

impl Closing<'_> {
    const fn key(&self) -> &str {
        match self {
            Self::End(put) => put.key,
            Self::Revoke(put) => put.key,
        }
    }
}

/// What became of a [`Closing`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// The master decided.
    Settled(Result<(), ErrorCode>),
    /// It may have decided, and may be asked again.
    Unknown(ErrorCode),
}

/// Publishes and revokes open puts.
#[derive(Debug)]
pub struct CloseOp<'a> {
    closings: &'a [Closing<'a>],
    ends: Batches,
    revokes: Batches,
    asked: Vec<usize>,
    /// The ends that are asked for; absent once puts are revoked.
    ending: Option<Ending<'a>>,
    results: Vec<Closed>,
}

impl<'a> CloseOp<'a> {
    /// Tells the master all of `closings`.
    #[must_use]
    pub fn new(closings: &'a [Closing<'a>]) -> Self {
        let is_end = |&at: &usize| matches!(closings[at], Closing::End(_));
        let (ends, revokes) = (0..closings.len()).partition(is_end);
        Self {
            closings,
            ends: Batches::new(ends),
            revokes: Batches::new(revokes),
            asked: Vec::new(),
            ending: None,
            results: vec![Closed::Unknown(ErrorCode::InternalError); closings.len()],
        }
    }
}

impl<'a> CloseOp<'a> {
    /// The ends of the next batch, if there is one.
    fn begin_ending(&mut self) -> Option<Ending<'a>> {
        let closings = self.closings;
        self.asked = self.ends.take(|at| closings[at].key().len());
        let end = |&at: &usize| match closings[at] {
            Closing::End(put) => Some(put),
            Closing::Revoke(_) => None,
        };
        let puts: Vec<PutEnd<'a>> = self.asked.iter().filter_map(end).collect();
        (!puts.is_empty()).then(|| Ending::new(puts))
    }

    fn on_ended(&mut self, ending: Ending<'a>) {
        for (&at, ended) in self.asked.iter().zip(ending.outcomes()) {
            self.results[at] = match ended {
                Ended::Settled(result) => Closed::Settled(result),
                Ended::Refused(code) | Ended::Unknown(code) => Closed::Unknown(code),
            };
        }
    }

    fn revoke(&mut self) -> Step<'a> {
        let closings = self.closings;
        self.asked = self.revokes.take(|at| closings[at].key().len());
        let revoke = |&at: &usize| match closings[at] {
            Closing::Revoke(put) => Some(put),
            Closing::End(_) => None,
        };
        let puts: Vec<PutRevoke<'a>> = self.asked.iter().filter_map(revoke).collect();
        if puts.is_empty() { Step::Done } else { Step::Call(Request::PutRevoke { puts }) }
    }

    /// The answer to a revocation; gives a code if there is no master any more that could be asked for the rest.
    fn on_revoked(&mut self, reply: Result<Reply, CallError>) -> Option<ErrorCode> {
        let asked = std::mem::take(&mut self.asked);
        match reply {
            Ok(Reply::Statuses(results)) if results.len() == asked.len() => {
                for (at, result) in asked.into_iter().zip(results) {
                    self.results[at] = Closed::Settled(result);
                }
                None
            }
            Ok(other) => {
                self.fail(&asked, unexpected(&other));
                None
            }
            Err(error) => {
                self.fail(&asked, error.code());
                Some(error.code())
            }
        }
    }

    fn fail(&mut self, positions: &[usize], code: ErrorCode) {
        positions.iter().for_each(|&at| self.results[at] = Closed::Unknown(code));
    }
}

impl<'a> Op<'a> for CloseOp<'a> {
    type Output = Vec<Closed>;

    fn batch(&self) -> u64 {
        self.ends.begun() + self.revokes.begun()
    }

    fn next(&mut self, now: Tick) -> Step<'a> {
        loop {
            let Some(mut ending) = self.ending.take().or_else(|| self.begin_ending()) else {
                return self.revoke();
            };
            match ending.next(now) {
                Some(step) => {
                    self.ending = Some(ending);
                    return step;
                }
                None => self.on_ended(ending),
            }
        }
    }

    fn on_reply(&mut self, _now: Tick, reply: Result<Reply, CallError>) {
        let lost = match &mut self.ending {
            Some(ending) => ending.on_reply(reply),
            None => self.on_revoked(reply),
        };
        if let Some(code) = lost {
            let rest = [self.ends.take_rest(), self.revokes.take_rest()].concat();
            self.fail(&rest, code);
        }
    }

    fn on_transfer(&mut self, results: Vec<Result<(), MoveError>>) {
        let ending = self.ending.as_mut().expect("only ends have something dropped");
        ending.on_dropped(&results);
    }

    fn finish(self) -> Self::Output {
        self.results
    }
}
