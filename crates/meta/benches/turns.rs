//! Measures how long one turn of the master's owner thread takes at most: each request, each part of the due work and
//! each page of statistics, while a node is drained from a full pool of many segments.
//!
//! `cargo bench -p mooncake-meta --bench turns [-- SEGMENTS]`. The node lends one segment in 40, and no other segment
//! has room for what lies there. Meanwhile clients put, which evicts, and get; nodes ping; and operators look.

#![allow(clippy::disallowed_methods, reason = "a benchmark needs a clock")]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use mooncake_meta::{Config, Meta};
use mooncake_types::{
    ClientId, DrainStatus, Epoch, MountSegment, PutEnd, PutItem, PutMode, PutStart,
    ReplicateConfig, Reply, Request, SegmentId, Tick, Version,
};

const OBJECT_BYTES: u64 = 64 << 10;
/// Objects that each segment holds.
const OBJECTS: usize = 64;
const BATCH: usize = 64;
const WRITER: ClientId = ClientId(1 << 64);
/// The node that is drained.
const DRAINED: ClientId = ClientId(1 << 65);
/// A time at which the leader's recovery is long over, in milliseconds.
const BEGUN: u64 = 3_600_000;
/// The longest that a turn may take.
const MOST: Duration = Duration::from_millis(5);
/// Number of measurements. The one with the shortest longest turn counts, since other work on the machine interrupts
/// some turns.
const ROUNDS: usize = 3;

/// How long each turn took, by what it did.
#[derive(Default)]
struct Turns(BTreeMap<&'static str, Vec<Duration>>);

impl Turns {
    fn time<T>(&mut self, what: &'static str, turn: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let result = turn();
        self.0.entry(what).or_default().push(begun.elapsed());
        result
    }

    fn longest(&self) -> Duration {
        self.0.values().flatten().copied().max().unwrap_or_default()
    }

    fn print(mut self) {
        println!("| turn | number | median us | 99.9 % us | longest us |");
        println!("|---|---|---|---|---|");
        for (what, times) in &mut self.0 {
            times.sort_unstable();
            let at = |permille: usize| {
                times[(times.len() - 1) * permille / 1_000].as_nanos() as f64 / 1e3
            };
            let (median, rare, longest) = (at(500), at(999), at(1_000));
            println!("| {what} | {} | {median:.1} | {rare:.0} | {longest:.0} |", times.len());
        }
    }
}

fn is_drained(segment: usize) -> bool {
    segment.is_multiple_of(40)
}

fn node(segment: usize) -> ClientId {
    if is_drained(segment) { DRAINED } else { ClientId(1 + segment as u128) }
}

fn id(segment: usize) -> SegmentId {
    SegmentId(segment as u128)
}

fn mount(meta: &mut Meta, segment: usize) {
    let name = format!("node-{segment}:12345");
    let mount = MountSegment {
        id: id(segment),
        name: &name,
        endpoint: &name,
        len: OBJECTS as u64 * OBJECT_BYTES,
        seen_epoch: Epoch(0),
        is_empty: true,
        run: 1,
        medium: mooncake_types::Medium::Memory,
        domains: &[],
        seal_key: None,
    };
    let reply = meta.handle(Tick(0), node(segment), &Request::MountSegment(mount));
    assert!(matches!(reply, Reply::Mounted(_)), "{reply:?}");
}

fn keys(batch: usize) -> Vec<String> {
    (0..BATCH).map(|i| format!("{:064x}", batch * BATCH + i)).collect()
}

fn put(meta: &mut Meta, turns: &mut Turns, batch: usize, now: Tick) {
    let keys = keys(batch);
    let puts = keys.iter().map(|key| PutItem::new(key, OBJECT_BYTES)).collect();
    let (config, mode) = (ReplicateConfig::default(), PutMode::Insert);
    let request = Request::PutStart(PutStart { puts, config, mode });
    let reply = turns.time("put_start of 64 keys", || meta.handle(now, WRITER, &request));
    let Reply::Granted { results, .. } = reply else { panic!("{reply:?}") };
    let granted = keys.iter().zip(results);
    let granted: Vec<(&String, Version)> =
        granted.filter_map(|(key, grant)| Some((key, grant.ok()?.version))).collect();
    let (failed_replicas, held_replicas) = (0, 0);
    let puts = granted.iter().map(|&(key, version)| PutEnd {
        key,
        version,
        failed_replicas,
        held_replicas,
    });
    let request = Request::PutEnd { puts: puts.collect() };
    turns.time("put_end of 64 keys", || meta.handle(now, WRITER, &request));
}

fn due_work(meta: &mut Meta, turns: &mut Turns, now: Tick) {
    while meta.poll_timeout().is_some_and(|due| due <= now) {
        turns.time("due work", || meta.handle_timeout(now));
    }
}

fn full_pool(segments: usize) -> Meta {
    let config = Config {
        eviction_high_watermark_ratio: 1.0,
        client_ttl_ms: u64::MAX / 2,
        ..Config::default()
    };
    let mut meta = Meta::new(config, Epoch(1));
    (0..segments).for_each(|segment| mount(&mut meta, segment));
    for batch in 0..segments * OBJECTS / BATCH {
        put(&mut meta, &mut Turns::default(), batch, Tick(1));
    }
    due_work(&mut meta, &mut Turns::default(), Tick(BEGUN));
    meta
}

/// What operators look at: a page at a time.
fn look(meta: &mut Meta, turns: &mut Turns) {
    turns.time("counters", || black_box(&*meta).counts());
    let mut next = Some(0);
    while let Some(from) = next {
        let (page, following) = turns.time("page of segments", || meta.segments_from(from));
        drop(page);
        next = following;
    }
}

fn measure(segments: usize) -> Turns {
    let (mut meta, mut turns) = (full_pool(segments), Turns::default());
    let of_node = (0..segments).filter(|&it| is_drained(it)).take(256).map(id).collect();
    let drain = Request::DrainSegments { segments: of_node };
    let tasks = Request::FetchTasks { limit: 64, wait_ms: 0 };
    let mut batch = segments * OBJECTS / BATCH;
    for tick in 0.. {
        let now = Tick(BEGUN + tick * 10);
        let reply = turns.time("drain begun or asked for", || meta.handle(now, DRAINED, &drain));
        let Reply::Draining(report) = reply else { panic!("{reply:?}") };
        if !matches!(
            report.status,
            DrainStatus::Created | DrainStatus::Planning | DrainStatus::Running
        ) {
            assert!(report.failed_units > 0, "the pool is full: {report:?}");
            return turns;
        }
        due_work(&mut meta, &mut turns, now);
        turns.time("tasks fetched", || meta.handle(now, DRAINED, &tasks));
        put(&mut meta, &mut turns, batch, now);
        batch += 1;
        due_work(&mut meta, &mut turns, now);
        let wanted = keys(batch - 1 - tick as usize % 100);
        let get = Request::GetReplicaList { keys: wanted.iter().map(String::as_str).collect() };
        turns.time("look-up of 64 keys", || meta.handle(now, WRITER, &get));
        for segment in (tick as usize % 25..segments).step_by(25) {
            let ping =
                Request::Ping { segments: vec![id(segment)], unreachable: vec![], reads: None };
            turns.time("ping", || meta.handle(now, node(segment), &ping));
        }
        look(&mut meta, &mut turns);
    }
    turns
}

fn main() {
    let numbers: Vec<usize> = std::env::args().filter_map(|text| text.parse().ok()).collect();
    let segments = numbers.first().copied().unwrap_or(10_000);
    let rounds = (0..ROUNDS).map(|_| measure(segments));
    let best = rounds.min_by_key(Turns::longest).expect("there are some rounds");
    let longest = best.longest();
    best.print();
    assert!(longest <= MOST, "a turn took {longest:?}");
}
