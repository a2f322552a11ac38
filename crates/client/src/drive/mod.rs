mod failure;
mod memory;
mod views;

use std::sync::Arc;
use std::time::{Duration, Instant};

use mooncake_calls::{Stage, Transfer, around, current, note, ran};
use mooncake_ops::{
    CallError, Deadline, MasterRetry, MoveError, Op, RangeToRead, RangeToWrite, Retry, RetryPolicy,
    Step,
};
use mooncake_transfer::{Paths, ReadOp, Source, TransferError, WriteOp};
use mooncake_types::{Epoch, ErrorCode, NodeDrop, RangeWrite, Reply, Request, SegmentId, Tick};

use crate::clock::Clock;
use crate::heartbeat::Heartbeat;
use crate::metrics::{Extent, Fetched, Metrics};
use crate::rpc::ConnectionPool;
use failure::{is_out_of_reach, to_move_error};
pub(crate) use memory::Memory;

/// Where a fetched range goes.
enum Destination {
    Memory,
    /// There is no room for it.
    None,
    /// A view shows it in place.
    View(Source),
}

/// What operations need to reach the master and the nodes.
pub(crate) struct OpDriver<'w> {
    pub(crate) clock: &'w Clock,
    pub(crate) pool: &'w ConnectionPool,
    pub(crate) paths: &'w Paths,
    /// How long after its start a call may begin a step, not counting the time for its bytes; see [`Deadline`].
    pub(crate) call_ms: u64,
    /// Counts the transfers that callers ask for.
    pub(crate) metrics: Option<&'w Metrics>,
    /// Tells the master of nodes that cannot be reached.
    pub(crate) heartbeat: Option<&'w Heartbeat>,
}

impl OpDriver<'_> {
    /// Runs an operation to its end on this thread, and returns its result.
    pub(crate) fn drive<'a, O: Op<'a>>(&self, mut op: O, mut memory: impl Memory) -> O::Output {
        self.run(&mut op, &mut memory);
        op.finish()
    }

    /// As [`OpDriver::drive`], for callers that need their memory, or the operation, afterwards.
    pub(crate) fn run<'a>(&self, op: &mut impl Op<'a>, memory: &mut impl Memory) {
        self.run_checking(op, memory, |_| ());
    }

    /// As [`OpDriver::run`]; calls `check` with the operation before each step.
    pub(crate) fn run_checking<'a, O: Op<'a>>(
        &self,
        op: &mut O,
        memory: &mut impl Memory,
        check: impl Fn(&mut O),
    ) {
        let mut deadline = Deadline::of_ms(self.call_ms);
        let began = self.clock.now();
        let (mut now, mut pause) = (began, Stage::Pause);
        loop {
            check(op);
            match deadline.next(op, now) {
                Step::Call(request) => {
                    // Only the start of a put waits for room before it asks again.
                    let is_start = matches!(request, Request::PutStart(_));
                    pause = if is_start { Stage::Room } else { Stage::Pause };
                    let reply = self.ask(&request, &deadline);
                    op.on_reply(reply);
                }
                Step::Read(fetches) => op.on_transfer(self.read(fetches, memory)),
                Step::Write(epoch, deposits) => {
                    op.on_transfer(self.write(epoch, deposits, memory, &deadline));
                }
                Step::Drop(discards) => {
                    let drop = || self.drop_entries(discards, &deadline);
                    op.on_transfer(around(Stage::Drop, drop));
                }
                Step::Wait(until) => self.wait(until, pause),
                Step::Done => return ran(Duration::from_millis(now.since_ms(began))),
            }
            now = self.clock.now();
        }
    }

    /// Asks the master, and repeats the request while a new leader is starting.
    fn ask(&self, request: &Request<'_>, deadline: &Deadline) -> Result<Reply, CallError> {
        let mut retry = MasterRetry::default();
        loop {
            let left = Duration::from_millis(deadline.left_ms(self.clock.now()));
            let reply = self.pool.call_within(request, left);
            if let Err(error) = &reply {
                let request = current().map(tracing::field::display);
                tracing::debug!(request, %error, "a call to the master failed");
            }
            let again = retry.again_at(self.clock.now(), request, &reply);
            match again.filter(|&at| deadline.left_ms(at) > 0) {
                Some(at) => self.wait(at, Stage::Pause),
                None => return retry.read(reply),
            }
        }
    }

    fn wait(&self, until: Tick, stage: Stage) {
        let wait = Duration::from_millis(until.since_ms(self.clock.now()));
        std::thread::sleep(wait);
        note(stage, wait);
    }

    fn drop_entries(
        &self,
        discards: Vec<NodeDrop>,
        deadline: &Deadline,
    ) -> Vec<Result<(), MoveError>> {
        let mut results = self.paths.drop_ranges(&discards);
        self.repeat_early(&mut results, deadline, |early| {
            let early: Vec<NodeDrop> = early.iter().map(|&at| discards[at].clone()).collect();
            self.paths.drop_ranges(&early)
        });
        self.report(discards.iter().map(|discard| discard.range.segment), &results);
        results.into_iter().map(|result| result.map_err(to_move_error)).collect()
    }

    fn read(
        &self,
        fetches: Vec<RangeToRead>,
        memory: &mut impl Memory,
    ) -> Vec<Result<(), MoveError>> {
        let extent = Extent::of(fetches.iter().map(|fetch| fetch.position));
        let (started, transfer) = (Instant::now(), Transfer::begin());
        let takes_views = memory.takes_views();
        let views = if takes_views { views::show(self.paths, &fetches) } else { Vec::new() };
        let is_shown: Vec<bool> = views.iter().map(Option::is_some).collect();
        let shown = fetches.iter().zip(views).filter_map(|(fetch, view)| Some((fetch, view?)));
        shown.for_each(|(fetch, view)| memory.take_view(fetch.position, view));
        let is_shown = |index: usize| is_shown.get(index).is_some_and(|is_shown| *is_shown);
        make_room(memory, &fetches, is_shown);
        let mut ops = Vec::with_capacity(fetches.len());
        let mut destinations = Vec::with_capacity(fetches.len());
        for (index, fetch) in fetches.into_iter().enumerate() {
            let RangeToRead { position, endpoint, medium, range, at, object_len } = fetch;
            if is_shown(index) {
                let source = self.paths.source_shown(range.segment);
                destinations.push((position, medium, range.len, Destination::View(source)));
                continue;
            }
            let dst = memory.part(position, at, range.len, object_len);
            let destination = if dst.is_some() { Destination::Memory } else { Destination::None };
            destinations.push((position, medium, range.len, destination));
            ops.extend(dst.map(|dst| ReadOp { endpoint, range, dst }));
        }
        let results = self.paths.read_from(&ops);
        self.report(ops.iter().map(|op| op.range.segment), &results);
        let mut results = results.into_iter().map(|result| result.map_err(to_move_error));
        let fetched = |(position, medium, len, destination)| {
            let result = match destination {
                Destination::Memory => results.next().expect("one result per range"),
                Destination::None => Err(MoveError::Refused(ErrorCode::BufferOverflow)),
                Destination::View(source) => Ok(source),
            };
            Fetched { position, medium, len, result }
        };
        let fetched: Vec<Fetched> = destinations.into_iter().map(fetched).collect();
        let took = started.elapsed();
        transfer.end(took, fetched.iter().map(|it| it.len).sum());
        if let Some(metrics) = self.metrics {
            metrics.on_read(extent, &fetched, took);
        }
        fetched.into_iter().map(|it| it.result.map(|_| ())).collect()
    }

    fn write(
        &self,
        epoch: Epoch,
        deposits: Vec<RangeToWrite<'_>>,
        memory: &mut impl Memory,
        deadline: &Deadline,
    ) -> Vec<Result<(), MoveError>> {
        let extent = Extent::of(deposits.iter().map(|deposit| deposit.position));
        let ops: Vec<WriteOp<'_>> = deposits
            .iter()
            .map(|RangeToWrite { position, endpoint, range, at, attributes }| {
                let part = memory.part(*position, *at, range.len, range.object_len);
                let (endpoint, src) = (Arc::clone(endpoint), part.expect("a put has its bytes"));
                let range = RangeWrite { attributes: attributes.bytes(), ..*range };
                WriteOp { endpoint, range, src }
            })
            .collect();
        let (started, transfer) = (Instant::now(), Transfer::begin());
        let mut results = self.paths.write_to(epoch, &ops);
        self.repeat_early(&mut results, deadline, |early| {
            let early: Vec<WriteOp<'_>> = early.iter().map(|&at| ops[at].clone()).collect();
            self.paths.write_to(epoch, &early)
        });
        memory.on_written();
        let took = started.elapsed();
        let lens = deposits.iter().map(|deposit| deposit.range.len);
        transfer.end(took, lens.clone().sum());
        if let Some(metrics) = self.metrics {
            let written =
                lens.zip(&results).filter_map(|(len, to)| Some((*to.as_ref().ok()?, len)));
            metrics.on_write(extent, written, took);
        }
        self.report(deposits.iter().map(|deposit| deposit.range.segment), &results);
        results.into_iter().map(|result| result.map(|_| ()).map_err(to_move_error)).collect()
    }

    /// Repeats the calls that nodes refused because they did not know the leader yet. Their heartbeats tell them of
    /// it.
    fn repeat_early<T>(
        &self,
        results: &mut [Result<T, TransferError>],
        deadline: &Deadline,
        ask: impl Fn(&[usize]) -> Vec<Result<T, TransferError>>,
    ) {
        const EARLY: TransferError = TransferError::Refused(ErrorCode::UNKNOWN_LEADER);
        let is_early =
            |result: &Result<T, TransferError>| matches!(result, Err(error) if *error == EARLY);
        let mut retry = Retry::new(RetryPolicy::NEW_LEADER);
        loop {
            let early: Vec<usize> =
                (0..results.len()).filter(|&position| is_early(&results[position])).collect();
            if early.is_empty() {
                return;
            }
            let again = retry.again_at(self.clock.now());
            let Some(at) = again.filter(|&at| deadline.left_ms(at) > 0) else { return };
            self.wait(at, Stage::Pause);
            early
                .iter()
                .zip(ask(&early))
                .for_each(|(&position, result)| results[position] = result);
        }
    }

    /// Tells the master which of these segments are on nodes that could not be reached.
    fn report<T>(
        &self,
        segments: impl Iterator<Item = SegmentId>,
        results: &[Result<T, TransferError>],
    ) {
        let Some(heartbeat) = self.heartbeat else { return };
        let failed = segments.zip(results).filter(|(_, result)| is_out_of_reach(result));
        let segments: Vec<SegmentId> = failed.map(|(segment, _)| segment).collect();
        if !segments.is_empty() {
            heartbeat.report(&segments);
        }
    }
}

/// Makes room for the fetches that are not shown in place.
fn make_room(memory: &mut impl Memory, fetches: &[RangeToRead], is_shown: impl Fn(usize) -> bool) {
    if !(0..fetches.len()).any(&is_shown) {
        return memory.make_room(fetches);
    }
    let is_copied = |(index, _): &(usize, &RangeToRead)| !is_shown(*index);
    let copied = fetches.iter().enumerate().filter(is_copied).map(|(_, fetch)| fetch.clone());
    memory.make_room(&copied.collect::<Vec<_>>());
}
