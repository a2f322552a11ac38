use mooncake_ops::{RemoveOp, RemoveScanOp};
use mooncake_types::{ClientId, SegmentId, Tick};

use crate::cached::Routes;
use crate::get::Reader;
use crate::key::{KEYS, some_keys};
use crate::pool::Pool;
use crate::task::{Task, leak};
use crate::{CALM, Faults, carry, get, put};

/// A client: one thread of an engine, doing one thing after another.
pub(crate) struct Actor {
    client: ClientId,
    own: &'static [SegmentId],
    task: Option<Task>,
    routes: Routes,
    asleep_until: Tick,
}

impl Actor {
    /// The engine in whose process that node runs.
    pub(crate) fn embedded(node: usize, pool: &Pool) -> Self {
        let node = &pool.nodes[node];
        Self { own: leak(vec![node.segment]), ..Self::pure(node.client) }
    }

    pub(crate) fn pure(client: ClientId) -> Self {
        Self { client, own: &[], task: None, routes: Routes::new(), asleep_until: Tick::ZERO }
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
        if let Some(task) = self.task.take() {
            task.forsake(pool);
        }
        self.routes = Routes::new();
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.task.is_none()
    }

    pub(crate) fn is_writing(&self) -> bool {
        self.task.as_ref().is_some_and(Task::is_writing)
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
            self.task = Some(self.begin(pool));
        }
        self.advance(pool, faults);
    }

    fn reader(&self) -> Reader {
        Reader { own: self.own, routes: self.routes.clone() }
    }

    /// A client that lends nothing dies, and another comes in its place.
    pub(crate) fn be_another(&mut self, pool: &mut Pool) {
        self.die(pool);
        pool.forget_removals(self.client);
        self.asleep_until = Tick::ZERO;
    }

    fn begin(&self, pool: &mut Pool) -> Task {
        if !self.own.is_empty() && pool.chance.below(8) == 0 {
            return carry::carry_out(pool);
        }
        match pool.chance.below(40) {
            0..10 => put::random(pool),
            10..14 => put::session(pool),
            14..30 => get::random(&self.reader(), pool),
            30..33 => get::session(self.own, pool),
            33..37 => carry::create(pool),
            37 => carry::clear(pool),
            38 if pool.chance.below(5) == 0 => remove_some(pool.chance.below(2) == 0, pool),
            _ => {
                let force = pool.chance.below(2) == 0;
                remove(some_keys(pool), force, pool)
            }
        }
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
            self.task = task.end(self.client, pool);
        }
    }

    /// In a pool that is well, what is put can be read.
    pub(crate) fn prove_life(&mut self, pool: &mut Pool) {
        self.run(remove((0..KEYS.len()).collect(), true, pool), pool);
        let before = pool.tally.clone();
        self.run(put::put(vec![0, 1], vec![300, 40], 2, false, pool), pool);
        self.run(put::put(vec![1, 1], vec![50, 60], 1, true, pool), pool);
        self.run(get::get(vec![0, 1, 0], &self.reader(), pool), pool);
        assert_eq!(pool.tally.puts, before.puts + 4, "{:?}", pool.tally);
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

fn remove(keys: Vec<usize>, force: bool, pool: &Pool) -> Task {
    let names = leak(keys.iter().map(|&key| KEYS[key]).collect());
    Task::new(RemoveOp::new(names, force), keys, pool, |removed, after| {
        let of_key = |key| after.keys.iter().zip(&removed).filter(move |(of, _)| **of == key);
        // One result of a key that is named twice is good, and the other is a miss.
        let is_done = |key| of_key(key).any(|(_, result)| result.is_ok());
        after.pool.acknowledge_removals(after.client, is_done);
        None
    })
}

fn remove_some(force: bool, pool: &Pool) -> Task {
    let op = RemoveScanOp::new(Some("^[ab]"), force);
    Task::new(op, vec![0], pool, |removed, after| {
        after.pool.acknowledge_removals(after.client, |_| removed.is_ok());
        None
    })
}
