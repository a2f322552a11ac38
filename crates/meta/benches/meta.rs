//! Measures the state machine in process: nanoseconds per key and bytes per object.
//!
//! `cargo bench -p mooncake-meta [-- OBJECTS]`, or `-- placement` for the last row alone. Batches have 1,000 keys of
//! 117 bytes. The times include building the replies, but not building the requests.

#![allow(clippy::disallowed_methods, reason = "a benchmark needs a clock")]

use std::time::{Duration, Instant};

use mooncake_meta::{Config, Meta};
use mooncake_types::{
    ClientId, Epoch, MountSegment, PutEnd, PutItem, PutRevoke, PutStart, ReplicateConfig, Reply,
    Request, Scan, ScanAction, SegmentId, Tick,
};

const BATCH: usize = 1_000;
const OBJECT_BYTES: u64 = 64 << 10;
const CLIENT: ClientId = ClientId(1);
/// By then no node may report what an earlier master granted, so the master remembers no keys for that.
const BEGUN: Tick = Tick(60_000);

fn key(number: usize) -> String {
    format!("Qwen/Qwen3-32B@pcp0@dcp0@head_or_tp_rank:0@pp_rank:0@{number:064x}")
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").expect("Linux has /proc");
    let pages = status.split_whitespace().nth(1).expect("the second field is resident pages");
    pages.parse::<u64>().expect("a number") * 4096
}

fn pool(segments: usize, objects: usize) -> Meta {
    let mut meta =
        Meta::new(Config { eviction_high_watermark_ratio: 1.0, ..Config::default() }, Epoch(1));
    meta.handle_timeout(BEGUN);
    for i in 0..segments {
        let name = format!("node-{i}:12345");
        let mount = MountSegment {
            id: SegmentId(i as u128),
            name: &name,
            endpoint: &name,
            len: (objects as u64 * OBJECT_BYTES).div_ceil(segments as u64) + 256 * OBJECT_BYTES,
            seen_epoch: Epoch(0),
            is_empty: true,
            run: 1,
            medium: mooncake_types::Medium::Memory,
            domains: &[],
            seal_key: None,
        };
        meta.handle(BEGUN, CLIENT, &Request::MountSegment(mount));
    }
    meta
}

/// Runs `requests` one after the other. Returns nanoseconds per key and the longest single request.
fn time<'a>(
    meta: &mut Meta,
    now: Tick,
    requests: impl Iterator<Item = Request<'a>>,
) -> (f64, Duration) {
    let (mut spent, mut longest, mut count) = (Duration::ZERO, Duration::ZERO, 0usize);
    for request in requests {
        let start = Instant::now();
        let reply = meta.handle(now, CLIENT, &request);
        let took = start.elapsed();
        drop(reply);
        (spent, longest, count) = (spent + took, longest.max(took), count + 1);
    }
    (spent.as_nanos() as f64 / (count * BATCH) as f64, longest)
}

fn put_all(meta: &mut Meta, keys: &[String], now: Tick) -> (f64, f64) {
    let (mut starts, mut ends) = (Duration::ZERO, Duration::ZERO);
    for batch in keys.chunks(BATCH) {
        let puts = batch.iter().map(|key| PutItem::new(key, OBJECT_BYTES)).collect();
        let request = Request::PutStart(PutStart {
            puts,
            config: ReplicateConfig::default(),
            mode: mooncake_types::PutMode::Insert,
        });
        let start = Instant::now();
        let reply = meta.handle(now, CLIENT, &request);
        starts += start.elapsed();
        let Reply::Granted { results, .. } = reply else { panic!("{reply:?}") };
        let end = |(key, result): (&'_ String, Result<mooncake_types::Grant, _>)| {
            result.ok().map(|grant| (key.clone(), grant.version))
        };
        let ended: Vec<_> = batch.iter().zip(results).filter_map(end).collect();
        let puts = ended
            .iter()
            .map(|(key, version)| PutEnd {
                key,
                version: *version,
                failed_replicas: 0,
                held_replicas: 0,
            })
            .collect();
        let request = Request::PutEnd { puts };
        let start = Instant::now();
        meta.handle(now, CLIENT, &request);
        ends += start.elapsed();
    }
    let per_key = |spent: Duration| spent.as_nanos() as f64 / keys.len() as f64;
    (per_key(starts), per_key(ends))
}

/// Puts one key a request into a full pool, so that each put evicts. Returns how long each start took, in ascending order.
fn evict_one_by_one(meta: &mut Meta, keys: &[String], now: Tick) -> Vec<Duration> {
    let config = ReplicateConfig::default();
    let mode = mooncake_types::PutMode::Insert;
    let mut took: Vec<Duration> = Vec::with_capacity(keys.len());
    for key in keys {
        let puts = vec![PutItem::new(key, OBJECT_BYTES)];
        let request = Request::PutStart(PutStart { puts, config: config.clone(), mode });
        let start = Instant::now();
        let reply = meta.handle(now, CLIENT, &request);
        took.push(start.elapsed());
        let Reply::Granted { results, .. } = reply else { panic!("{reply:?}") };
        let version = results[0].as_ref().expect("something can be evicted").version;
        let put = PutEnd { key, version, failed_replicas: 0, held_replicas: 0 };
        meta.handle(now, CLIENT, &Request::PutEnd { puts: vec![put] });
    }
    took.sort_unstable();
    took
}

fn measure(objects: usize, segments: usize) {
    let keys: Vec<String> = (0..objects).map(key).collect();
    let more: Vec<String> = (objects * 2..objects * 2 + objects / 4).map(key).collect();
    let before = resident_bytes();
    let mut meta = pool(segments, objects);
    let (start, end) = put_all(&mut meta, &keys, BEGUN);
    let bytes = (resident_bytes() - before) as f64 / objects as f64;
    // A stride that visits the batches in another order than the puts.
    let batches: Vec<&[String]> = keys.chunks(BATCH).collect();
    let stride = |i: usize| batches[i * 37 % batches.len()].iter().map(String::as_str).collect();
    let all = 0..batches.len();
    let (exist, _) = time(&mut meta, BEGUN, all.clone().map(|i| Request::exist(stride(i))));
    let (get, _) = time(&mut meta, BEGUN, all.map(|i| Request::GetReplicaList { keys: stride(i) }));
    let scan = |cursor| {
        Request::Scan(Scan {
            tenant: Some("default"),
            pattern: Some("no key has this"),
            action: ScanAction::List,
            cursor,
            limit: BATCH as u32,
        })
    };
    let cursors = (0..objects / BATCH).map(|i| (i * BATCH) as u64);
    let (regex, longest) = time(&mut meta, BEGUN, cursors.map(scan));
    let later = Tick(3_600_000);
    let evicted = meta.stats().counters.evicted_keys;
    let (put_evicting, _) = put_all(&mut meta, &more, later);
    let victims = meta.stats().counters.evicted_keys - evicted;
    let single: Vec<String> = (objects * 3..objects * 3 + objects / 4).map(key).collect();
    let took = evict_one_by_one(&mut meta, &single, later);
    let rare = took[took.len() * 999 / 1000].as_nanos() as f64 / 1e3;
    let worst = took.last().expect("there are keys").as_nanos() as f64 / 1e3;
    println!(
        "| {objects} | {segments} | {bytes:.0} | {start:.0} | {end:.0} | {exist:.0} | {get:.0} | {regex:.0} | {:.0} | {put_evicting:.0} | {victims} | {rare:.1} | {worst:.0} |",
        longest.as_micros()
    );
}

/// Starts puts over 16 segments in an otherwise empty pool, and revokes them untimed. Nearly all of the time is
/// placement.
fn measure_placement() {
    const ROUNDS: usize = 300;
    let keys: Vec<String> = (0..BATCH).map(key).collect();
    let mut meta = pool(16, BATCH * 16);
    let config = ReplicateConfig::default();
    let mode = mooncake_types::PutMode::Insert;
    let mut best = Duration::MAX;
    for _ in 0..ROUNDS {
        let puts = keys.iter().map(|key| PutItem::new(key, OBJECT_BYTES)).collect();
        let request = Request::PutStart(PutStart { puts, config: config.clone(), mode });
        let start = Instant::now();
        let reply = meta.handle(BEGUN, CLIENT, &request);
        best = best.min(start.elapsed());
        let Reply::Granted { results, .. } = reply else { panic!("{reply:?}") };
        let granted = keys.iter().zip(results);
        let revoked = granted
            .map(|(key, grant)| PutRevoke::new(key, grant.expect("there is room for all").version));
        meta.handle(BEGUN, CLIENT, &Request::PutRevoke { puts: revoked.collect() });
    }
    let per_key = best.as_nanos() as f64 / BATCH as f64;
    println!("placement over 16 segments, best of {ROUNDS} batches: {per_key:.0} ns per put_start");
}

/// Runs each row in a process of its own, so that its resident memory is not mixed with that of other rows.
fn main() {
    let numbers: Vec<usize> = std::env::args().filter_map(|text| text.parse().ok()).collect();
    if std::env::args().any(|text| text == "placement") {
        return measure_placement();
    }
    if let [objects, segments] = numbers[..] {
        return measure(objects, segments);
    }
    println!(
        "| objects | segments | bytes/object | put_start ns | put_end ns | exist ns | get ns | regex ns | longest regex page us | put_start when full ns | of those, evicted | put_start of one key that evicts, p99.9 us | longest us |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    let most = numbers.first().copied().unwrap_or(1_000_000);
    for (objects, segments) in [(10_000, 1), (10_000, 16), (most, 1), (most, 16)] {
        let program = std::env::current_exe().expect("the path of this benchmark");
        let row = [objects.to_string(), segments.to_string()];
        let status = std::process::Command::new(program).args(row).status();
        assert!(status.is_ok_and(|status| status.success()), "a row failed");
    }
    measure_placement();
}
