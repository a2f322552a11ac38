use mooncake_client::ops::{GetItem, GetOp, MoveError, Op, PutOp, RemoveOp, RemoveScanOp, Step};
use mooncake_client::{Chance, ReplicateConfig};
use mooncake_types::{ClientId, Epoch, ErrorCode, PutItem, SegmentId, Tick};

use crate::cell::{Cell, whole_object};
use crate::moves::{Read, Write};
use crate::pool::Pool;
use crate::{CALM, Faults};

const KEYS: [&str; 40] = [
    "a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8", "a9", "b0", "b1", "b2", "b3", "b4", "b5",
    "b6", "b7", "b8", "b9", "c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8", "c9", "d0", "d1",
    "d2", "d3", "d4", "d5", "d6", "d7", "d8", "d9",
];

/// A client: one thread of an engine, doing one thing after another.
pub(crate) struct Actor {
    client: ClientId,
    own: &'static [SegmentId],
    task: Option<Task>,
    asleep_until: Tick,
}

struct Task {
    verb: Verb,
    keys: Vec<usize>,
    began_at: u64,
    under_way: UnderWay,
    buffers: Vec<Vec<Cell>>,
}

enum Verb {
    Put(PutOp<'static>),
    Get(GetOp<'static>),
    Remove(RemoveOp<'static>),
    RemoveAll(RemoveScanOp<'static>),
}

enum UnderWay {
    Nothing,
    Reads(Vec<Read>),
    Writes(Epoch, Vec<Write>),
}

/// Operations borrow what they are about; a test may leak it.
fn leak<T>(items: Vec<T>) -> &'static [T] {
    Box::leak(items.into_boxed_slice())
}

impl Actor {
    /// The engine in whose process that node runs.
    pub(crate) fn embedded(node: usize, pool: &Pool) -> Self {
        let node = &pool.nodes[node];
        Self { own: leak(vec![node.segment]), ..Self::pure(node.client) }
    }

    pub(crate) fn pure(client: ClientId) -> Self {
        Self { client, own: &[], task: None, asleep_until: Tick::ZERO }
    }

    /// Dies and comes back with its node.
    pub(crate) fn follow_node(&mut self, node: usize, pool: &mut Pool) {
        let node = &pool.nodes[node];
        if !node.alive || node.client != self.client {
            let (client, segment) = (node.client, node.segment);
            self.die(pool);
            self.client = client;
            self.own = leak(vec![segment]);
        }
    }

    fn die(&mut self, pool: &mut Pool) {
        if let Some(Task { under_way: UnderWay::Writes(_, writes), .. }) = self.task.take() {
            for write in writes {
                write.forsake(pool);
            }
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.task.is_none()
    }

    pub(crate) fn is_writing(&self) -> bool {
        matches!(&self.task, Some(Task { under_way: UnderWay::Writes(..), .. }))
    }

    /// Stands still for up to half a minute, whatever it is in the middle of: long enough for what it holds to be
    /// given to others.
    pub(crate) fn stall(&mut self, pool: &mut Pool) {
        let longest = [1_000, 15_000, 30_000][pool.chance.below(3) as usize];
        self.asleep_until = pool.now.after_ms(pool.chance.below(longest));
    }

    pub(crate) fn wake(&mut self) {
        self.asleep_until = Tick::ZERO;
    }

    pub(crate) fn step(&mut self, pool: &mut Pool, faults: &Faults) {
        if self.asleep_until > pool.now {
            return;
        }
        if self.task.is_none() {
            self.task = Some(Task::random(self.own, pool));
        }
        self.advance(pool, faults);
    }

    /// A step that begins nothing new.
    pub(crate) fn finish_step(&mut self, pool: &mut Pool) {
        if self.task.is_some() {
            self.advance(pool, &CALM);
        }
    }

    fn advance(&mut self, pool: &mut Pool, faults: &Faults) {
        let task = self.task.as_mut().expect("there is something to do");
        if task.advance(self.client, pool, faults) {
            let task = self.task.take().expect("it was there a moment ago");
            task.end(pool);
        }
    }

    /// In a pool that is well, what is put can be read.
    pub(crate) fn prove_life(&mut self, pool: &mut Pool) {
        self.run(Task::remove((0..KEYS.len()).collect(), true, pool), pool);
        let before = pool.tally.clone();
        self.run(Task::put(vec![0, 1], vec![300, 40], 2, pool), pool);
        self.run(Task::get(vec![0, 1, 0], self.own, pool), pool);
        assert_eq!(pool.tally.puts, before.puts + 2, "{:?}", pool.tally);
        assert_eq!(pool.tally.right, before.right + 3, "{:?}", pool.tally);
    }

    fn run(&mut self, task: Task, pool: &mut Pool) {
        self.task = Some(task);
        while self.task.is_some() {
            pool.step(&CALM);
            self.advance(pool, &CALM);
        }
    }
}

impl Task {
    fn random(own: &'static [SegmentId], pool: &mut Pool) -> Self {
        let count = 1 + pool.chance.below(4);
        let any_key = |chance: &mut Chance| chance.below(KEYS.len() as u64) as usize;
        let keys: Vec<usize> = (0..count).map(|_| any_key(&mut pool.chance)).collect();
        match pool.chance.below(20) {
            0..7 => {
                let lens = keys.iter().map(|_| 1 + pool.chance.below(700)).collect();
                let replicas = 1 + pool.chance.below(3) as u32;
                Self::put(keys, lens, replicas, pool)
            }
            7..18 => Self::get(keys, own, pool),
            18 if pool.chance.below(5) == 0 => {
                Self::new(Verb::RemoveAll(RemoveScanOp::new(Some("^[ab]"), false)), keys, pool)
            }
            _ => {
                let force = pool.chance.below(2) == 0;
                Self::remove(keys, force, pool)
            }
        }
    }

    fn new(verb: Verb, keys: Vec<usize>, pool: &Pool) -> Self {
        let buffers = vec![Vec::new(); keys.len()];
        Self { verb, keys, began_at: pool.steps, under_way: UnderWay::Nothing, buffers }
    }

    fn put(keys: Vec<usize>, lens: Vec<u64>, replica_num: u32, pool: &Pool) -> Self {
        let items = keys.iter().zip(lens).map(|(&key, len)| PutItem { key: KEYS[key], len });
        let config = ReplicateConfig { replica_num, ..ReplicateConfig::default() };
        let op = PutOp::new(leak(items.collect()), &config);
        Self::new(Verb::Put(op), keys, pool)
    }

    fn get(keys: Vec<usize>, own: &'static [SegmentId], pool: &mut Pool) -> Self {
        let items = keys.iter().map(|&key| GetItem { key: KEYS[key], capacity: Some(700) });
        let op = GetOp::new(leak(items.collect()), own, Chance::new(pool.chance.bits()));
        Self::new(Verb::Get(op), keys, pool)
    }

    fn remove(keys: Vec<usize>, force: bool, pool: &Pool) -> Self {
        let names = leak(keys.iter().map(|&key| KEYS[key]).collect());
        let op = RemoveOp::new(names, force);
        Self::new(Verb::Remove(op), keys, pool)
    }

    /// Does one small thing; true when everything is done.
    fn advance(&mut self, client: ClientId, pool: &mut Pool, faults: &Faults) -> bool {
        let Self { verb, under_way, buffers, keys, .. } = self;
        match under_way {
            UnderWay::Nothing => {}
            UnderWay::Reads(reads) => {
                let index = pool.chance.below(reads.len() as u64) as usize;
                reads[index].step(buffers, pool);
                if let Some(results) = reads.iter().map(Read::result).collect() {
                    *under_way = UnderWay::Nothing;
                    verb.on_transfer(results, pool);
                }
                return false;
            }
            UnderWay::Writes(epoch, writes) => {
                let index = pool.chance.below(writes.len() as u64) as usize;
                writes[index].step(*epoch, pool);
                if let Some(results) = writes.iter().map(Write::result).collect() {
                    *under_way = UnderWay::Nothing;
                    verb.on_transfer(results, pool);
                }
                return false;
            }
        }
        match verb.next(pool.now) {
            Step::Call(request) => {
                let reply = pool.ask(client, &request, faults);
                verb.on_reply(pool.now, reply);
            }
            Step::Read(fetches) => {
                *under_way = UnderWay::Reads(fetches.into_iter().map(Read::new).collect());
            }
            Step::Write(epoch, deposits) => {
                let writes = deposits.into_iter().map(|deposit| {
                    let key = keys[deposit.position];
                    Write::new(deposit, key)
                });
                *under_way = UnderWay::Writes(epoch, writes.collect());
            }
            Step::Done => return true,
        }
        false
    }

    fn end(self, pool: &mut Pool) {
        match self.verb {
            Verb::Put(op) => {
                for result in op.finish() {
                    match result {
                        Ok(()) => pool.tally.puts += 1,
                        Err(code) => *pool.tally.failed_puts.entry(code).or_default() += 1,
                    }
                }
            }
            Verb::Get(op) => {
                for (position, result) in op.finish().into_iter().enumerate() {
                    match result {
                        Ok(len) => {
                            let cells = &self.buffers[position][..len as usize];
                            let version = whole_object(self.keys[position], cells);
                            let version = version.unwrap_or_else(|| panic!("wrong: {cells:?}"));
                            pool.check_version(version, self.began_at);
                            pool.tally.right += 1;
                        }
                        Err(ErrorCode::ObjectNotFound | ErrorCode::ReplicaIsNotReady) => {
                            pool.tally.missed += 1;
                        }
                        Err(code) => *pool.tally.failed_gets.entry(code).or_default() += 1,
                    }
                }
            }
            Verb::Remove(op) => drop(op.finish()),
            Verb::RemoveAll(op) => drop(op.finish()),
        }
    }
}

impl Verb {
    fn next(&mut self, now: Tick) -> Step<'static> {
        match self {
            Self::Put(op) => op.next(now),
            Self::Get(op) => op.next(now),
            Self::Remove(op) => op.next(now),
            Self::RemoveAll(op) => op.next(now),
        }
    }

    fn on_reply(
        &mut self,
        now: Tick,
        reply: Result<mooncake_types::Reply, mooncake_client::ops::CallError>,
    ) {
        match self {
            Self::Put(op) => op.on_reply(now, reply),
            Self::Get(op) => op.on_reply(now, reply),
            Self::Remove(op) => op.on_reply(now, reply),
            Self::RemoveAll(op) => op.on_reply(now, reply),
        }
    }

    fn on_transfer(&mut self, results: Vec<Result<(), MoveError>>, pool: &mut Pool) {
        match self {
            Self::Put(op) => op.on_transfer(results),
            Self::Get(op) => {
                pool.tally.failovers += results.iter().filter(|it| it.is_err()).count() as u64;
                op.on_transfer(results);
            }
            Self::Remove(_) | Self::RemoveAll(_) => unreachable!("they move no bytes"),
        }
    }
}
