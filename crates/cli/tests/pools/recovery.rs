//! A master that is killed and restarted while nodes and a store keep running.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use mooncake_client::{Buffer, ErrorCode, PutSource, ReplicateConfig, SliceList, Store};
use mooncake_testing::{Master, Node, PATIENCE};
use rustix::process::Signal;

use crate::start::{MASTER, node, store};

const NODE_BYTES: usize = 32 << 20;

/// A master with two nodes, and a store that lends no memory.
struct Pool {
    master: Master,
    _nodes: Vec<Node>,
    store: Store,
    /// The objects in the pool: for each key the number of its value.
    held: BTreeMap<String, u32>,
}

/// Bytes generated from the key and the number of its value; the length depends on both.
fn value(key: &str, number: u32) -> Vec<u8> {
    let text = format!("{key}/{number}/");
    let len = 1 + text.bytes().map(usize::from).sum::<usize>() * 37 % 60_000;
    text.bytes().cycle().take(len).collect()
}

impl Pool {
    fn start() -> Pool {
        let master = Master::start_lasting(MASTER, &[]);
        let nodes = (0..2).map(|_| node(&master.rpc, &[])).collect();
        let store = store(&master.rpc);
        Pool { master, _nodes: nodes, store, held: BTreeMap::new() }
    }

    fn try_put(
        &self,
        key: &str,
        number: u32,
        config: &ReplicateConfig<'_>,
    ) -> Result<(), ErrorCode> {
        let value = Buffer::from_vec(value(key, number));
        let source = PutSource::new(key, SliceList::from(value.raw()));
        self.store.upsert(&[source], config).remove(0)
    }

    fn put(&mut self, key: &str, number: u32, config: &ReplicateConfig<'_>) {
        assert_eq!(self.try_put(key, number, config), Ok(()), "{key}");
        self.held.insert(key.to_owned(), number);
    }

    fn remove(&mut self, key: &str) {
        assert_eq!(self.store.remove(&[key], true), [Ok(())], "{key}");
        self.held.remove(key);
    }

    /// Gets a key and checks that its bytes are those of the value in `held`.
    fn get(&self, key: &str) -> Result<(), ErrorCode> {
        let got = self.store.get(&[key]).remove(0)?.into_vec();
        let number = self.held.get(key).copied();
        let number =
            number.unwrap_or_else(|| panic!("{key} was removed, and {} bytes came", got.len()));
        assert!(got == value(key, number), "{key}: not value {number}");
        Ok(())
    }

    /// Waits until every object in `held` can be read, and returns how long that took.
    fn all_are_read(&self) -> Duration {
        let begun = Instant::now();
        for key in self.held.keys() {
            while let Err(code) = self.get(key) {
                assert!(begun.elapsed() < PATIENCE, "{key}: {code}");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        begun.elapsed()
    }
}

fn replicas(replica_num: u32) -> ReplicateConfig<'static> {
    ReplicateConfig { replica_num, ..ReplicateConfig::default() }
}

/// Puts objects of one and two replicas, replaces some, and removes some.
fn fill(pool: &mut Pool) {
    for number in 0..200 {
        pool.put(&format!("key-{number}"), 0, &replicas(1 + number % 2));
    }
    for number in (0..200).step_by(5) {
        pool.put(&format!("key-{number}"), 1, &replicas(1));
    }
    for number in (0..200).step_by(7) {
        pool.remove(&format!("key-{number}"));
    }
}

fn none_came_back(pool: &Pool) {
    for number in (0..200).step_by(7) {
        assert_eq!(pool.get(&format!("key-{number}")), Err(ErrorCode::ObjectNotFound));
    }
}

#[test]
fn what_was_put_is_there_and_what_was_removed_is_not_after_the_master_was_killed() {
    let mut pool = Pool::start();
    fill(&mut pool);
    pool.master.restart();
    let took = pool.all_are_read();
    // Without a membership record, the master shows an object that replaced another only after a lease.
    assert!(took < Duration::from_secs(10), "{took:?}");
    none_came_back(&pool);
    // The restarted master accepts replacements, new objects and removals.
    for number in 0..50 {
        let key = format!("key-{}", number * 4);
        pool.put(&key, 2, &replicas(2));
        pool.put(&format!("new-{number}"), 0, &replicas(1));
    }
    pool.remove("key-1");
    pool.master.restart();
    pool.all_are_read();
    assert_eq!(pool.get("key-1"), Err(ErrorCode::ObjectNotFound));
}

#[test]
fn what_was_put_once_is_there_within_a_second_or_two() {
    let mut pool = Pool::start();
    for number in 0..200 {
        pool.put(&format!("key-{number}"), 0, &replicas(1 + number % 2));
    }
    pool.master.restart();
    let took = pool.all_are_read();
    assert!(took < Duration::from_secs(2), "{took:?}");
}

#[test]
fn a_second_death_in_the_middle_of_the_first_recovery_costs_nothing() {
    let mut pool = Pool::start();
    fill(&mut pool);
    for pause_ms in [0, 5, 20, 60, 150] {
        pool.master.restart();
        std::thread::sleep(Duration::from_millis(pause_ms));
    }
    pool.master.restart();
    pool.all_are_read();
    none_came_back(&pool);
}

#[test]
fn what_was_pinned_stays_pinned() {
    let mut pool = Pool::start();
    let pinned = ReplicateConfig { hard_pin: true, ..replicas(1) };
    for number in 0..20 {
        pool.put(&format!("pinned-{number}"), 0, &pinned);
    }
    pool.master.restart();
    pool.all_are_read();
    let big = Buffer::from_vec(vec![7; 1 << 20]);
    for number in 0..3 * ((2 * NODE_BYTES) >> 20) {
        let key = format!("filler-{number}");
        let source = PutSource::new(&key, SliceList::from(big.raw()));
        assert_eq!(pool.store.put(&[source], &replicas(1)), [Ok(())], "{key}");
    }
    for number in 0..20 {
        assert_eq!(pool.get(&format!("pinned-{number}")), Ok(()));
    }
}

/// Calls without a master, and calls after its restart.
#[test]
fn without_a_master_known_objects_are_read_and_everything_else_ends_soon() {
    let mut pool = Pool::start();
    pool.put("known", 0, &replicas(1));
    pool.put("other", 0, &replicas(1));
    assert_eq!(pool.get("known"), Ok(()));
    pool.master.program.kill();
    let soon = |what: &str, begun: Instant| {
        let took = begun.elapsed();
        assert!(took < Duration::from_millis(500), "{what} took {took:?}");
    };
    for _ in 0..100 {
        let begun = Instant::now();
        assert_eq!(pool.get("known"), Ok(()));
        soon("a get of what is known", begun);
    }
    let begun = Instant::now();
    assert_eq!(pool.get("other"), Err(ErrorCode::RpcFail));
    soon("a get", begun);
    let begun = Instant::now();
    assert_eq!(pool.try_put("new", 0, &replicas(1)), Err(ErrorCode::RpcFail));
    soon("a put", begun);
    let begun = Instant::now();
    assert_eq!(pool.store.remove(&["other"], true), [Err(ErrorCode::RpcFail)]);
    soon("a removal", begun);
    let begun = Instant::now();
    assert_eq!(pool.store.exist(&["other"]), [Err(ErrorCode::RpcFail)]);
    soon("a question", begun);
    pool.master.start_again();
    pool.all_are_read();
    pool.put("new", 0, &replicas(2));
    assert_eq!(pool.get("new"), Ok(()));
}

/// The master is paused. A call in progress fails when the client's pings stay unanswered; later calls fail sooner.
#[test]
fn under_a_master_that_stands_still_known_objects_are_read_and_everything_else_ends_soon() {
    let mut pool = Pool::start();
    pool.put("known", 0, &replicas(1));
    pool.put("other", 0, &replicas(1));
    assert_eq!(pool.get("known"), Ok(()));
    pool.master.program.signal(Signal::STOP);
    for _ in 0..100 {
        let begun = Instant::now();
        assert_eq!(pool.get("known"), Ok(()));
        assert!(begun.elapsed() < Duration::from_millis(500), "{:?}", begun.elapsed());
    }
    let within = |what: &str, begun: Instant, limit: Duration| {
        let took = begun.elapsed();
        assert!(took < limit, "{what} took {took:?}");
    };
    let begun = Instant::now();
    assert!(pool.try_put("new", 0, &replicas(1)).is_err());
    // The client sends a ping each second, and waits three seconds for its answer.
    within("the put that was under way", begun, Duration::from_secs(8));
    for _ in 0..3 {
        let begun = Instant::now();
        assert!(pool.get("other").is_err());
        within("a get", begun, Duration::from_secs(3));
        let begun = Instant::now();
        assert!(pool.try_put("new", 0, &replicas(1)).is_err());
        within("a put", begun, Duration::from_secs(3));
    }
    pool.master.program.signal(Signal::CONT);
    pool.all_are_read();
    let begun = Instant::now();
    while pool.try_put("new", 0, &replicas(2)).is_err() {
        assert!(begun.elapsed() < PATIENCE, "nothing can be put any more");
    }
    pool.held.insert("new".to_owned(), 0);
    assert_eq!(pool.get("new"), Ok(()));
}
