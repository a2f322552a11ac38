use mooncake_ops::{CallError, Deadline, MoveError, Op, Step};
use mooncake_types::{ClientId, Discard, Epoch, Reply, Tick};

use crate::Faults;
use crate::cell::Cell;
use crate::moves::{Read, Write};
use crate::pool::Pool;

/// How long after its start a call begins something.
const CALL_MS: u64 = 30_000;

/// An operation that an actor is in the middle of.
pub(crate) struct Task {
    driven: Box<dyn Driven>,
    /// By item, the number of its key.
    keys: Vec<usize>,
    began_at: u64,
    under_way: UnderWay,
    /// By item, what was read for it.
    buffers: Vec<Vec<Cell>>,
}

/// What an operation came to.
pub(crate) struct After<'p> {
    pub(crate) client: ClientId,
    pub(crate) pool: &'p mut Pool,
    pub(crate) keys: Vec<usize>,
    pub(crate) buffers: Vec<Vec<Cell>>,
    pub(crate) began_at: u64,
}

/// An operation of any kind, and what follows it.
trait Driven {
    fn next(&mut self, now: Tick) -> Step<'static>;
    fn on_reply(&mut self, now: Tick, reply: Result<Reply, CallError>);
    fn on_transfer(&mut self, results: Vec<Result<(), MoveError>>);
    fn end(self: Box<Self>, after: After<'_>) -> Option<Task>;
}

struct Running<O, F> {
    op: O,
    deadline: Deadline,
    end: F,
}

impl<O: Op<'static>, F: FnOnce(O::Output, After<'_>) -> Option<Task>> Driven for Running<O, F> {
    fn next(&mut self, now: Tick) -> Step<'static> {
        self.deadline.next(&mut self.op, now)
    }

    fn on_reply(&mut self, now: Tick, reply: Result<Reply, CallError>) {
        self.op.on_reply(now, reply);
    }

    fn on_transfer(&mut self, results: Vec<Result<(), MoveError>>) {
        self.op.on_transfer(results);
    }

    fn end(self: Box<Self>, after: After<'_>) -> Option<Task> {
        (self.end)(self.op.finish(), after)
    }
}

enum UnderWay {
    Nothing,
    Reads(Vec<Read>),
    Writes(Epoch, Vec<Write>),
    Drops(Vec<(Discard, Option<Result<(), MoveError>>)>),
    Pause(Tick),
}

/// Operations borrow what they are about; a test may leak it.
pub(crate) fn leak<T>(items: Vec<T>) -> &'static [T] {
    Box::leak(items.into_boxed_slice())
}

impl Task {
    /// Runs `op`, whose items are about these keys, and goes on with what `end` gives.
    pub(crate) fn new<O: Op<'static> + 'static>(
        op: O,
        keys: Vec<usize>,
        pool: &Pool,
        end: impl FnOnce(O::Output, After<'_>) -> Option<Task> + 'static,
    ) -> Self {
        Self {
            driven: Box::new(Running { op, deadline: Deadline::of_ms(CALL_MS), end }),
            buffers: vec![Vec::new(); keys.len()],
            keys,
            began_at: pool.steps,
            under_way: UnderWay::Nothing,
        }
    }

    /// As begun at that step, when what it builds on was looked up.
    pub(crate) fn since(self, began_at: u64) -> Self {
        Self { began_at, ..self }
    }

    pub(crate) fn is_writing(&self) -> bool {
        matches!(self.under_way, UnderWay::Writes(..))
    }

    /// The client is gone; nodes that it was writing to will notice.
    pub(crate) fn forsake(&self, pool: &mut Pool) {
        if let UnderWay::Writes(_, writes) = &self.under_way {
            for write in writes {
                write.forsake(pool);
            }
        }
    }

    /// Does one small thing; true when everything is done.
    pub(crate) fn advance(&mut self, client: ClientId, pool: &mut Pool, faults: &Faults) -> bool {
        if self.move_bytes(client, pool, faults) {
            return false;
        }
        match self.driven.next(pool.now) {
            Step::Call(request) => {
                let reply = pool.ask(client, &request, faults);
                self.driven.on_reply(pool.now, reply);
            }
            Step::Read(fetches) if fetches.is_empty() => self.driven.on_transfer(Vec::new()),
            Step::Read(fetches) => {
                self.under_way = UnderWay::Reads(fetches.into_iter().map(Read::new).collect());
            }
            Step::Write(_, deposits) if deposits.is_empty() => self.driven.on_transfer(Vec::new()),
            Step::Write(epoch, deposits) => {
                let writes = deposits.into_iter().map(|deposit| {
                    let key = self.keys[deposit.position];
                    Write::new(deposit, key)
                });
                self.under_way = UnderWay::Writes(epoch, writes.collect());
            }
            Step::Drop(discards) if discards.is_empty() => self.driven.on_transfer(Vec::new()),
            Step::Drop(discards) => {
                pool.tally.drops += discards.len() as u64;
                let drops = discards.into_iter().map(|discard| (discard, None));
                self.under_way = UnderWay::Drops(drops.collect());
            }
            Step::Wait(until) => self.under_way = UnderWay::Pause(until),
            Step::Done => return true,
        }
        false
    }

    /// Goes on with the transfer that is under way; false if there is none.
    fn move_bytes(&mut self, client: ClientId, pool: &mut Pool, faults: &Faults) -> bool {
        let (buffers, failed) = (&mut self.buffers, |it: &&Result<(), MoveError>| it.is_err());
        let results: Option<Vec<_>> = match &mut self.under_way {
            UnderWay::Nothing => return false,
            UnderWay::Pause(until) if pool.now < *until => return true,
            UnderWay::Pause(_) => {
                self.under_way = UnderWay::Nothing;
                return true;
            }
            UnderWay::Drops(drops) => {
                let index = pool.chance.below(drops.len() as u64) as usize;
                let (discard, result) = &mut drops[index];
                if result.is_none() {
                    *result = Some(pool.drop_entry(client, &discard.range, faults));
                }
                drops.iter().map(|(_, result)| *result).collect()
            }
            UnderWay::Reads(reads) => {
                let index = pool.chance.below(reads.len() as u64) as usize;
                reads[index].step(buffers, pool);
                let results: Option<Vec<_>> = reads.iter().map(Read::result).collect();
                let failures = results.iter().flatten().filter(failed).count();
                pool.tally.failovers += failures as u64;
                results
            }
            UnderWay::Writes(epoch, writes) => {
                let index = pool.chance.below(writes.len() as u64) as usize;
                writes[index].step(*epoch, buffers, pool);
                writes.iter().map(Write::result).collect()
            }
        };
        if let Some(results) = results {
            self.under_way = UnderWay::Nothing;
            self.driven.on_transfer(results);
        }
        true
    }

    /// What follows.
    pub(crate) fn end(self, client: ClientId, pool: &mut Pool) -> Option<Task> {
        let Self { driven, keys, buffers, began_at, .. } = self;
        driven.end(After { client, pool, keys, buffers, began_at })
    }
}
