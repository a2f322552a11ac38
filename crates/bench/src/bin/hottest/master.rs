//! The master's state machine: look-ups, puts and evictions.

use std::hint::black_box;

use mooncake_meta::{Config, Meta};
use mooncake_types::{
    ClientId, Epoch, ExistOptions, MountSegment, PutEnd, PutItem, PutMode, PutStart, RangeDrop,
    ReplicateConfig, Reply, Request, SegmentId, Tick, Version,
};

use crate::keys::{BATCH, batches, borrowed};
use crate::{MAX_ROUNDS, Row};

const CLIENT: ClientId = ClientId(1);
const OBJECT_BYTES: u64 = 64 << 10;
/// How many batches of objects are stored before the rounds.
const STORED: usize = 20;
const SEGMENTS: usize = 4;
/// After the end of all leases.
const LATER: Tick = Tick(3_600_000);

pub(crate) const OPERATIONS: &[Row] = &[
    ("exist_1", "is_exist in the master, a request of 1 key; per request", BATCH, exist_one),
    ("exist_1000", "is_exist in the master, a request of 1,000 keys; per key", BATCH, exist),
    (
        "get_replica_list_1",
        "look-up in the master, a request of 1 key; per request",
        BATCH,
        get_one,
    ),
    (
        "get_replica_list_1000",
        "look-up in the master, a request of 1,000 keys; per key",
        BATCH,
        get,
    ),
    ("put_1000", "put_start and put_end in the master, 1,000 keys a request; per key", BATCH, put),
    (
        "put_evicting_1000",
        "the same in a full pool, with one eviction for each; per key",
        BATCH,
        put_evicting,
    ),
    (
        "remove_1000",
        "put_start, put_end, remove and the nodes' word that nothing is left, 1,000 keys a request; per key",
        BATCH,
        put_and_remove,
    ),
];

/// A master whose pool has room for this many batches.
fn pool(batches: usize) -> Meta {
    let config = Config { eviction_high_watermark_ratio: 1.0, ..Config::default() };
    let mut meta = Meta::new(config, Epoch(1));
    for at in 0..SEGMENTS {
        let name = format!("node-{at}:12345");
        let mount = MountSegment {
            id: SegmentId(at as u128),
            name: &name,
            endpoint: &name,
            len: (batches * BATCH / SEGMENTS) as u64 * OBJECT_BYTES,
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

fn put_batch(meta: &mut Meta, now: Tick, batch: &[String]) {
    let puts = batch.iter().map(|key| PutItem::new(key, OBJECT_BYTES)).collect();
    let start = PutStart { puts, config: ReplicateConfig::default(), mode: PutMode::Insert };
    let Reply::Granted { results, .. } = meta.handle(now, CLIENT, &Request::PutStart(start)) else {
        panic!("a put is answered with grants");
    };
    let end = |(key, version): (_, Version)| PutEnd {
        key,
        version,
        failed_replicas: 0,
        held_replicas: 0,
    };
    let versions = results.into_iter().map(|grant| grant.expect("there is room").version);
    let keys = batch.iter().map(String::as_str);
    let puts = keys.zip(versions).map(end).collect();
    black_box(meta.handle(now, CLIENT, &Request::PutEnd { puts }));
}

fn filled(meta: &mut Meta, stored: usize) -> Vec<Vec<String>> {
    let keys = batches(0, stored);
    keys.iter().for_each(|batch| put_batch(meta, Tick(1), batch));
    keys
}

/// Looks up one batch each round, with `at_once` keys in each request.
fn look_up(rounds: usize, at_once: usize, request: impl for<'a> Fn(Vec<&'a str>) -> Request<'a>) {
    let mut meta = pool(STORED);
    let keys = filled(&mut meta, STORED);
    for round in 0..rounds {
        // The stride visits batches in another order than that of the puts.
        for asked in keys[round * 7 % STORED].chunks(at_once) {
            black_box(meta.handle(Tick(2), CLIENT, &request(borrowed(asked))));
        }
    }
}

fn exist_one(rounds: usize) {
    look_up(rounds, 1, |keys| Request::ExistKey { keys, options: ExistOptions::default() });
}

fn exist(rounds: usize) {
    look_up(rounds, BATCH, |keys| Request::ExistKey { keys, options: ExistOptions::default() });
}

fn get_one(rounds: usize) {
    look_up(rounds, 1, |keys| Request::GetReplicaList { keys });
}

fn get(rounds: usize) {
    look_up(rounds, BATCH, |keys| Request::GetReplicaList { keys });
}

fn put(rounds: usize) {
    let mut meta = pool(STORED + MAX_ROUNDS);
    filled(&mut meta, STORED);
    let more = batches(STORED * BATCH, MAX_ROUNDS);
    more[..rounds].iter().for_each(|batch| put_batch(&mut meta, Tick(2), batch));
}

fn put_evicting(rounds: usize) {
    let mut meta = pool(STORED);
    filled(&mut meta, STORED);
    let more = batches(STORED * BATCH, MAX_ROUNDS);
    more[..rounds].iter().for_each(|batch| put_batch(&mut meta, LATER, batch));
    assert!(meta.stats().counters.evicted_keys >= (rounds * BATCH) as u64 / 2, "puts evict");
}

fn put_and_remove(rounds: usize) {
    let mut meta = pool(STORED + 1);
    filled(&mut meta, STORED);
    let more = batches(STORED * BATCH, 1);
    for _ in 0..rounds {
        put_batch(&mut meta, Tick(2), &more[0]);
        let keys = borrowed(&more[0]);
        let reply = meta.handle(Tick(2), CLIENT, &Request::Remove { keys, force: false });
        let Reply::Remaining { results, remains } = reply else {
            panic!("a removal is answered with what the nodes still hold");
        };
        assert!(results.iter().all(Result::is_ok) && remains.lease_ms == 0, "nothing is leased");
        let dropped = remains.ranges.iter().map(|range| RangeDrop {
            segment: remains.segments[range.segment as usize].id,
            offset: range.offset,
            version: range.version,
            grant: range.grant,
        });
        black_box(meta.handle(Tick(2), CLIENT, &Request::Dropped { dropped: dropped.collect() }));
    }
}
