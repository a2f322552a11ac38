//! How much processor time a master, a node and a client use when idle and under light load. No other test may run in
//! this process.

#![allow(missing_docs, reason = "tests are no public interface")]

use std::time::{Duration, Instant};

use mooncake_client::{
    Buffer, GetTarget, PutSource, ReplicateConfig, SliceList, Store, StoreConfig,
};
use mooncake_testing::{Master, Node, Program};

/// The processor time that all threads of a process have used.
fn processor_time(process: &str) -> Duration {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).expect("it runs");
    let of_task = |task: std::io::Result<std::fs::DirEntry>| {
        let path = task.expect("a task").path().join("schedstat");
        // A thread may end at any time.
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
    };
    Duration::from_nanos(tasks.map(of_task).sum())
}

/// A master, a node and a client; the client is this process.
struct Pool {
    master: Master,
    node: Node,
    client: Store,
    room: Buffer,
}

impl Pool {
    fn start() -> Pool {
        let master = Master::start(env!("CARGO_BIN_EXE_mooncake_master"), &[]);
        let size = ["--global_segment_size=8MB"];
        let node = Node::start(env!("CARGO_BIN_EXE_mooncake_client"), &master.rpc, &size);
        let (address, segment_bytes) = (master.rpc.clone(), 0);
        let config = StoreConfig { master: address, segment_bytes, ..StoreConfig::default() };
        let client = Store::open(config).expect("the master is there");
        let room = Buffer::zeroed(4096);
        let source = PutSource::new("key", SliceList::from(room.raw()));
        assert_eq!(client.put(&[source], &ReplicateConfig::default()), [Ok(())]);
        Pool { master, node, client, room }
    }

    fn get(&self) {
        let target = GetTarget { key: "key", dst: SliceList::from(self.room.raw()) };
        assert_eq!(self.client.get_into(&[target]), [Ok(4096)]);
    }

    fn get_for(&self, time: Duration) {
        let begun = Instant::now();
        while begun.elapsed() < time {
            self.get();
        }
    }

    /// The share of one processor that master, node and client each use while `work` runs.
    fn shares(&self, work: impl FnOnce()) -> [f64; 3] {
        let of = |program: &Program| processor_time(&program.id().to_string());
        let times = || [of(&self.master.program), of(&self.node.program), processor_time("self")];
        let (before, begun) = (times(), Instant::now());
        work();
        let (after, wall) = (times(), begun.elapsed());
        std::array::from_fn(|i| (after[i] - before[i]).as_secs_f64() / wall.as_secs_f64())
    }
}

#[test]
fn looking_for_messages_costs_an_idle_pool_nothing_and_a_slow_one_little() {
    let pool = Pool::start();
    // At first the node may prefault its segment when processors are free, so not every second is idle.
    let idle = (0..5).map(|_| {
        // Fast replies make all three processes poll for the next message.
        pool.get_for(Duration::from_millis(200));
        pool.shares(|| std::thread::sleep(Duration::from_secs(1)))
    });
    let idle: Vec<[f64; 3]> = idle.collect();
    let is_idle = |shares: &[f64; 3]| shares.iter().all(|share| *share < 0.03);
    assert!(idle.iter().any(is_idle), "master, node and client take {idle:?}");

    let slow = pool.shares(|| {
        for _ in 0..1000 {
            pool.get();
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    println!("idle {idle:?}, at 1 kHz {slow:?}");
    assert!(slow.iter().all(|share| *share < 0.15), "master, node and client take {slow:?}");
}
