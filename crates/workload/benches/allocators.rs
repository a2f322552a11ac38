//! Compares the two allocators: how much a pool holds, hits and refuses, and how long a `PutStart` takes.
//!
//! `cargo bench -p mooncake-workload --bench allocators` replays the trace in `data` against the state machine, in a
//! pool of a tenth of its distinct bytes on four segments. The two run in turn; each figure is the median of five
//! runs.

#![allow(clippy::disallowed_methods, reason = "a benchmark needs a clock")]

use std::path::Path;
use std::time::{Duration, Instant};

use mooncake_meta::{AllocatorKind, Config, Meta};
use mooncake_types::{
    ClientId, Epoch, MountSegment, PutEnd, PutItem, PutMode, PutStart, ReplicateConfig, Reply,
    Request, SegmentId, Tick,
};
use mooncake_workload::{Trace, TraceLimits};

const CLIENT: ClientId = ClientId(1);
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const RUNS: usize = 5;
const SEGMENTS: u64 = 4;
/// The number of blocks in one existence check.
const BATCH: usize = 1000;

type Len = fn(u32) -> u64;

/// Names and functions of the blocks' lengths.
const LENGTHS: [(&str, Len); 6] = [
    ("64 KiB", |_| 64 * KIB),
    ("2 MiB (8B model, 16 tokens)", |_| 2 * MIB),
    ("4,497,408 B (MLA, 64 tokens)", |_| 4_497_408),
    ("5 MiB (70B model, 16 tokens)", |_| 5 * MIB),
    ("1 MiB give or take 1 %", |block| MIB - 10_000 + dice(block) % 20_000),
    ("mixed 4 KiB to 16 MiB", |block| {
        // A random power of two plus a random part of it.
        let power = (4 * KIB) << (dice(block) % 12);
        power + (dice(block) >> 8) % power
    }),
];

/// SplitMix64.
fn dice(block: u32) -> u64 {
    let mut z = u64::from(block).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

fn key(block: u32) -> String {
    format!("model@rank_0@{block:064x}")
}

fn new_pool(allocator: AllocatorKind, bytes: u64) -> Meta {
    let config = Config {
        allocator,
        lease_ttl_ms: 200,
        eviction_high_watermark_ratio: 1.0,
        client_ttl_ms: u64::MAX / 2,
        // No node drops the tombstones here.
        most_tombstones: usize::MAX,
        ..Config::default()
    };
    let mut meta = Meta::new(config, Epoch(1));
    for segment in 0..SEGMENTS {
        let name = format!("node-{segment}:12345");
        let mount = MountSegment {
            id: SegmentId(u128::from(segment)),
            name: &name,
            endpoint: &name,
            len: bytes / SEGMENTS,
            seen_epoch: Epoch(0),
            is_empty: true,
            run: 1,
            medium: mooncake_types::Medium::Memory,
            domains: &[],
            seal_key: None,
        };
        meta.handle(Tick(0), CLIENT, &Request::MountSegment(mount));
    }
    meta
}

/// The figures of one run.
#[derive(Default)]
struct Run {
    hits: usize,
    puts: usize,
    refused: usize,
    starts: Duration,
    /// The share of the pool that the objects hold at the end.
    held: f64,
}

fn run(trace: &Trace, allocator: AllocatorKind, len: Len) -> Run {
    let bytes = (0..trace.hash_ids.len() as u32).map(len).sum::<u64>() / 10;
    let mut meta = new_pool(allocator, bytes);
    let mut run = Run::default();
    for (at, blocks) in trace.arrivals_ms.iter().zip(&trace.requests) {
        let now = Tick(*at);
        let there = exist(&mut meta, now, blocks);
        let found = there.iter().take_while(|&&it| it).count();
        run.hits += found;
        let keys: Vec<String> = blocks[..found].iter().map(|&block| key(block)).collect();
        let keys = keys.iter().map(String::as_str).collect();
        meta.handle(now, CLIENT, &Request::GetReplicaList { keys });
        let missing = blocks.iter().zip(there).filter(|(_, it)| !it).map(|(&block, _)| block);
        put(&mut meta, now, &missing.collect::<Vec<_>>(), len, &mut run);
    }
    let end = Tick(trace.last_ms());
    let all: Vec<u32> = (0..trace.hash_ids.len() as u32).collect();
    for blocks in all.chunks(BATCH) {
        let there = blocks.iter().zip(exist(&mut meta, end, blocks));
        let held: u64 = there.filter(|(_, it)| *it).map(|(&block, _)| len(block)).sum();
        run.held += held as f64 / bytes as f64;
    }
    run
}

fn exist(meta: &mut Meta, now: Tick, blocks: &[u32]) -> Vec<bool> {
    let keys: Vec<String> = blocks.iter().map(|&block| key(block)).collect();
    let keys = keys.iter().map(String::as_str).collect();
    let Reply::Exist(exist) = meta.handle(now, CLIENT, &Request::exist(keys)) else {
        panic!("a wrong kind of reply");
    };
    exist.into_iter().map(|there| there.expect("a sound key")).collect()
}

fn put(meta: &mut Meta, now: Tick, blocks: &[u32], len: Len, run: &mut Run) {
    let keys: Vec<String> = blocks.iter().map(|&block| key(block)).collect();
    let items = keys.iter().zip(blocks).map(|(key, &block)| PutItem::new(key, len(block)));
    let request = Request::PutStart(PutStart {
        puts: items.collect(),
        config: ReplicateConfig::default(),
        mode: PutMode::Insert,
    });
    let began = Instant::now();
    let reply = meta.handle(now, CLIENT, &request);
    run.starts += began.elapsed();
    let Reply::Granted { results, .. } = reply else { panic!("a wrong kind of reply") };
    run.puts += blocks.len();
    run.refused += results.iter().filter(|grant| grant.is_err()).count();
    let granted = keys.iter().zip(results).filter_map(|(key, grant)| {
        let version = grant.ok()?.version;
        Some(PutEnd { key, version, failed_replicas: 0, held_replicas: 0 })
    });
    meta.handle(now, CLIENT, &Request::PutEnd { puts: granted.collect() });
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = root.join("../../data/conversation_trace.jsonl.gz");
    let trace = Trace::read(&path, TraceLimits::NONE).expect("the trace is sound");
    let kinds = [("offset", AllocatorKind::Offset), ("cachelib", AllocatorKind::Cachelib)];
    println!("| lengths | allocator | held | hits | refused puts | start of a put |");
    println!("|---|---|---|---|---|---|");
    for (name, len) in LENGTHS {
        let mut runs = kinds.map(|_| Vec::new());
        for _ in 0..RUNS {
            for ((_, kind), runs) in kinds.iter().zip(&mut runs) {
                runs.push(run(&trace, *kind, len));
            }
        }
        for ((kind, _), runs) in kinds.iter().zip(&runs) {
            let of = |value: fn(&Run) -> f64| median(runs.iter().map(value).collect());
            let held = of(|run| run.held * 100.0);
            let hits = of(|run| run.hits as f64) * 100.0 / trace.blocks() as f64;
            let refused = of(|run| run.refused as f64 * 100.0 / run.puts as f64);
            let start = of(|run| run.starts.as_nanos() as f64 / run.puts as f64);
            println!(
                "| {name} | {kind} | {held:.1} % | {hits:.2} % | {refused:.3} % | {start:.0} ns |"
            );
        }
    }
}
