//! Peers join and leave, again and again. In the processes that stay, the numbers of descriptors and threads return to
//! their first values, and memory does not grow. No other test may run in this process.

#![allow(missing_docs, reason = "tests are no public interface")]

use std::time::{Duration, Instant};

use mooncake_client::{Buffer, PutSource, ReplicateConfig, SliceList, Store, StoreConfig};
use mooncake_testing::{Master, Node};
use rustix::process::Signal;

const LEN: usize = 100_000;

/// How long the counts must stay equal before the first peers join.
const STILL: Duration = Duration::from_secs(1);

/// How long the remaining processes may take to release the resources of peers that left.
const PATIENCE: Duration = Duration::from_secs(20);

fn start_node(master: &Master) -> Node {
    let size = ["--global_segment_size=4MB"];
    Node::start(env!("CARGO_BIN_EXE_mooncake_client"), &master.rpc, &size)
}

fn open(master: &Master, segment_bytes: u64, transports: &str) -> Store {
    let transports = transports.parse().expect("transports");
    let master = master.rpc.clone();
    Store::open(StoreConfig { master, segment_bytes, transports, ..StoreConfig::default() })
        .expect("the master serves")
}

fn value(key: &str) -> Vec<u8> {
    key.bytes().cycle().take(LEN).collect()
}

fn put(store: &Store, key: &str, segment: &str) {
    let value = Buffer::from_vec(value(key));
    let source = PutSource::new(key, SliceList::from(value.raw()));
    let preferred_segments = vec![segment];
    let config = ReplicateConfig { preferred_segments, ..ReplicateConfig::default() };
    assert_eq!(store.put(&[source], &config), [Ok(())], "{key}");
}

fn get(store: &Store, key: &str) {
    let got = store.get(&[key]).remove(0).expect("it is there");
    assert!(got.into_vec() == value(key), "{key} is wrong");
}

/// How many descriptors, threads and mapped segments a process holds.
#[derive(Debug, PartialEq)]
struct Holdings {
    descriptors: usize,
    threads: usize,
    mapped_segments: usize,
}

impl Holdings {
    fn of(process: &str) -> Self {
        let entries = |folder: &str| {
            let path = format!("/proc/{process}/{folder}");
            std::fs::read_dir(path).expect("it runs").count()
        };
        let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).expect("it runs");
        let mapped_segments = maps.lines().filter(|line| line.contains("mooncake-")).count();
        Self { descriptors: entries("fd"), threads: entries("task"), mapped_segments }
    }

    fn is_within(&self, before: &Self) -> bool {
        self.descriptors <= before.descriptors
            && self.threads <= before.threads
            && self.mapped_segments <= before.mapped_segments
    }
}

/// Anonymous memory of a process in bytes.
fn anonymous_bytes(process: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("it is said");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

fn thread_names(process: &str) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).expect("it runs");
    let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm"));
    tasks.flatten().filter_map(|task| name(task).ok()).map(|name| name.trim().to_owned()).collect()
}

/// The holdings of a process once they stay equal: a connection may exist before the thread that serves it.
fn settled(process: &str) -> Holdings {
    let mut last = (Holdings::of(process), Instant::now());
    while last.1.elapsed() < STILL {
        std::thread::sleep(Duration::from_millis(50));
        let now = Holdings::of(process);
        if now != last.0 {
            last = (now, Instant::now());
        }
    }
    last.0
}

fn expect_as_before(process: &str, before: &Holdings, wave: u32) {
    let begun = Instant::now();
    loop {
        let now = Holdings::of(process);
        if now.is_within(before) {
            return;
        }
        assert!(
            begun.elapsed() < PATIENCE,
            "wave {wave}, {process}: {now:?} after {before:?}; threads {:?}",
            thread_names(process)
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Starts nodes that lend and are read, and clients that read. Kills half of the nodes, and stops the others.
fn come_and_go(master: &Master, staying: &[&Store], of_node: &str, wave: u32) {
    let mut lenders: Vec<Node> = (0..6).map(|_| start_node(master)).collect();
    for (number, lender) in lenders.iter().enumerate() {
        let key = format!("{wave}/{number}");
        put(staying[0], &key, &lender.address);
        staying.iter().for_each(|store| get(store, &key));
    }
    let visitors = ["shm,tcp", "tcp"].map(|ways| open(master, 4 << 20, ways));
    visitors.iter().for_each(|visitor| get(visitor, of_node));
    visitors.iter().for_each(|visitor| get(visitor, &format!("{wave}/0")));
    for (number, lender) in lenders.iter_mut().enumerate() {
        match number % 2 {
            0 => lender.program.kill(),
            _ => drop(lender.program.stop(Signal::TERM)),
        }
    }
}

#[test]
fn descriptors_threads_and_memory_return_to_where_they_were_when_peers_leave() {
    let master = Master::start(env!("CARGO_BIN_EXE_mooncake_master"), &[]);
    let node = start_node(&master);
    let pid = node.program.id().to_string();
    let staying = [(8 << 20, "shm,tcp"), (0, "tcp")];
    let staying = staying.map(|(bytes, ways)| open(&master, bytes, ways));
    let staying: Vec<&Store> = staying.iter().collect();
    put(staying[0], "of the node", &node.address);
    staying.iter().for_each(|store| get(store, "of the node"));
    let processes = ["self", &pid];
    let before = processes.map(settled);
    let mut bytes = Vec::new();
    for wave in 0..10 {
        come_and_go(&master, &staying, "of the node", wave);
        for (process, before) in processes.iter().zip(&before) {
            expect_as_before(process, before, wave);
        }
        bytes.push(processes.map(anonymous_bytes));
    }
    println!("{before:?}, {bytes:?} bytes after each wave");
    // The first waves allocate memory that later waves reuse.
    for process in [0, 1] {
        let grown = bytes[9][process].saturating_sub(bytes[2][process]);
        assert!(grown < 4 << 20, "{}: {bytes:?}", processes[process]);
    }
}
