//! Measures the cost of many segments: mounts, puts into a full pool, puts while some segments are new, and the
//! heartbeats of many nodes during many evictions.
//!
//! `cargo bench -p mooncake-meta --bench segments`; `-- mounts SEGMENTS`, `-- puts SEGMENTS`, `-- ramp SEGMENTS` or
//! `-- pings NODES` for one row. All full pools have the same number of objects, spread over all segments. The times
//! do not include building the requests.

#![allow(clippy::disallowed_methods, reason = "a benchmark needs a clock")]

use std::time::{Duration, Instant};

use mooncake_meta::{Config, Meta};
use mooncake_types::{
    ClientId, Epoch, MountSegment, PutEnd, PutItem, PutMode, PutStart, RangeDrop, ReplicateConfig,
    Reply, Request, SegmentId, Tick, Version, limits,
};

const OBJECTS: usize = 1 << 19;
const OBJECT_BYTES: u64 = 64 << 10;
/// Short, so that other work on the machine seldom interrupts a batch.
const BATCH: usize = 16;
/// Number of batches into the full pool.
const ROUNDS: usize = 16_000;
const WRITER: ClientId = ClientId(1 << 64);
const PINGS_PER_SECOND: usize = 4;
const SECONDS: usize = 5;
/// Puts per second while nodes ping. Each put evicts an object.
const PUTS_PER_SECOND: usize = 40_960;
/// A time at which the leader's recovery is long over, in milliseconds.
const BEGUN: u64 = 3_600_000;

fn node(segment: usize) -> ClientId {
    ClientId(1 + segment as u128)
}

fn id(segment: usize) -> SegmentId {
    SegmentId(segment as u128)
}

/// Mounts a segment for a node of its own.
fn mount(meta: &mut Meta, segment: usize, len: u64, now: Tick) {
    let name = format!("node-{segment}:12345");
    let mount = MountSegment {
        id: id(segment),
        name: &name,
        endpoint: &name,
        len,
        seen_epoch: Epoch(0),
        is_empty: true,
        run: 1,
        medium: mooncake_types::Medium::Memory,
        domains: &[],
        seal_key: None,
    };
    let reply = meta.handle(now, node(segment), &Request::MountSegment(mount));
    assert!(matches!(reply, Reply::Mounted(_)), "{reply:?}");
}

/// A full pool: the next put evicts.
fn full_pool(segments: usize) -> Meta {
    let config = Config {
        eviction_high_watermark_ratio: 1.0,
        client_ttl_ms: u64::MAX / 2,
        ..Config::default()
    };
    let mut meta = Meta::new(config, Epoch(1));
    for segment in 0..segments {
        mount(&mut meta, segment, (OBJECTS / segments) as u64 * OBJECT_BYTES, Tick(0));
    }
    for batch in 0..OBJECTS / BATCH {
        put(&mut meta, batch, Tick(1));
    }
    while meta.poll_timeout().is_some_and(|due| due <= Tick(BEGUN)) {
        meta.handle_timeout(Tick(BEGUN));
    }
    meta
}

/// Starts the puts of a batch. Returns their keys and versions, and the time that the starts took.
fn start(meta: &mut Meta, batch: usize, now: Tick) -> (Vec<(String, Version)>, Duration) {
    let keys: Vec<String> = (0..BATCH).map(|i| format!("{:064x}", batch * BATCH + i)).collect();
    let puts = keys.iter().map(|key| PutItem::new(key, OBJECT_BYTES)).collect();
    let (config, mode) = (ReplicateConfig::default(), PutMode::Insert);
    let request = Request::PutStart(PutStart { puts, config, mode });
    let start = Instant::now();
    let reply = meta.handle(now, WRITER, &request);
    let took = start.elapsed();
    drop(request);
    let Reply::Granted { results, .. } = reply else { panic!("{reply:?}") };
    let granted = results.into_iter().map(|it| it.expect("there is room").version);
    (keys.into_iter().zip(granted).collect(), took)
}

fn end(meta: &mut Meta, started: &[(String, Version)], now: Tick) {
    let (failed_replicas, held_replicas) = (0, 0);
    let puts = started.iter().map(|(key, version)| PutEnd {
        key,
        version: *version,
        failed_replicas,
        held_replicas,
    });
    meta.handle(now, WRITER, &Request::PutEnd { puts: puts.collect() });
}

/// Puts a batch. Returns the time that the starts took.
fn put(meta: &mut Meta, batch: usize, now: Tick) -> Duration {
    let (started, took) = start(meta, batch, now);
    end(meta, &started, now);
    took
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn measure_mounts(segments: usize) {
    let mut meta = Meta::new(Config::default(), Epoch(1));
    let begun = Instant::now();
    for segment in 0..segments {
        mount(&mut meta, segment, 1 << 30, Tick(BEGUN));
    }
    let per_mount = begun.elapsed().as_nanos() as f64 / segments as f64;
    println!("| {segments} segments that mount one after the other | {per_mount:.0} ns each | |");
}

/// Measures puts while a fifth of the segments is new and the others are full.
fn measure_ramp(segments: usize) {
    let old = segments * 4 / 5;
    let mut meta = full_pool(old);
    for segment in old..segments {
        mount(&mut meta, segment, (OBJECTS / old) as u64 * OBJECT_BYTES, Tick(BEGUN));
    }
    let first = OBJECTS / BATCH;
    let rounds = first..first + ROUNDS / 8;
    let times = rounds.map(|batch| put(&mut meta, batch, Tick(BEGUN))).collect();
    let evicted = meta.stats().counters.evicted_keys;
    let per_put = median(times).as_nanos() as f64 / BATCH as f64;
    println!(
        "| puts into {segments} segments, {} of them new | {per_put:.0} ns a put_start | {evicted} evicted |",
        segments - old
    );
}

fn measure_puts(segments: usize) {
    let mut meta = full_pool(segments);
    let first = OBJECTS / BATCH;
    let times = (first..first + ROUNDS).map(|batch| put(&mut meta, batch, Tick(BEGUN))).collect();
    let evicted = meta.stats().counters.evicted_keys;
    let per_put = median(times).as_nanos() as f64 / BATCH as f64;
    println!(
        "| puts into {segments} full segments | {per_put:.0} ns a put_start | {evicted} evicted |"
    );
}

/// Measures nodes with one segment each, which ping and fetch drops as real nodes do.
fn measure_pings(nodes: usize) {
    let mut meta = full_pool(nodes);
    let mut dropped: Vec<Vec<RangeDrop>> = vec![Vec::new(); nodes];
    let (mut times, mut drops, mut batch) = (Vec::new(), 0, OBJECTS / BATCH);
    for beat in 0..SECONDS * PINGS_PER_SECOND {
        let now = Tick(BEGUN + beat as u64 * 1_000 / PINGS_PER_SECOND as u64);
        // While a put runs, its node drops the entry that was evicted for it.
        let batches = batch..batch + PUTS_PER_SECOND / PINGS_PER_SECOND / BATCH;
        batch = batches.end;
        let started: Vec<_> = batches.map(|batch| start(&mut meta, batch, now).0).collect();
        for (segment, dropped) in dropped.iter_mut().enumerate() {
            let ping =
                Request::Ping { segments: vec![id(segment)], unreachable: vec![], reads: None };
            let fetch = Request::FetchDrops {
                dropped: std::mem::take(dropped),
                limit: limits::MAX_FETCHED_DROPS,
            };
            let start = Instant::now();
            let pong = meta.handle(now, node(segment), &ping);
            let listed = match pong {
                Reply::Pong(pong) if pong.has_drops => meta.handle(now, node(segment), &fetch),
                _ => continue,
            };
            times.push(start.elapsed());
            let Reply::Drops(listed) = listed else { panic!("{listed:?}") };
            drops += listed.len();
            *dropped = listed;
        }
        started.iter().for_each(|started| end(&mut meta, started, now));
    }
    let heartbeats = (times.len() / SECONDS) as f64;
    let share = median(times).as_secs_f64() * heartbeats * 100.0;
    println!(
        "| {nodes} nodes, {PINGS_PER_SECOND} pings a second each | {share:.2} % of a core | {} drops a second |",
        drops / SECONDS
    );
}

/// Runs each row in a process of its own.
fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let [what, count] = arguments[..] {
        let count = count.parse().expect("a number");
        return match what {
            "mounts" => measure_mounts(count),
            "puts" => measure_puts(count),
            "ramp" => measure_ramp(count),
            _ => measure_pings(count),
        };
    }
    println!("| work | cost | |");
    println!("|---|---|---|");
    let rows = [
        ("mounts", 256),
        ("mounts", 2_048),
        ("puts", 16),
        ("puts", 256),
        ("puts", 2_048),
        ("ramp", 256),
        ("ramp", 2_048),
        ("pings", 16),
        ("pings", 2_000),
    ];
    for (what, count) in rows {
        let program = std::env::current_exe().expect("the path of this benchmark");
        let status = std::process::Command::new(program).args([what, &count.to_string()]).status();
        assert!(status.is_ok_and(|status| status.success()), "a row failed");
    }
}
