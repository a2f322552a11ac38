//! Eviction on the requests of a real service. A hit is a block in the longest prefix of a request that the pool
//! holds.

mod s3_fifo;

use std::path::Path;

use mooncake_meta::{Config, EvictionPolicy};
use mooncake_workload::{Pool, PoolShape, Trace, TraceLimits, best_hits, lru_hits};

use s3_fifo::s3_fifo_hits;

const BLOCK_BYTES: u64 = 64 << 10;

/// The trace in `data`.
fn shipped() -> Trace {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = root.join("../../data/conversation_trace.jsonl.gz");
    Trace::read(&path, TraceLimits::NONE).expect("the trace is sound")
}

/// The hits in a pool of `capacity` blocks. Leases are shorter than the time between requests, so that a lease alone
/// protects no block.
fn pool_hits(
    trace: &Trace,
    capacity: usize,
    segments: u32,
    eviction_policy: EvictionPolicy,
) -> u64 {
    let shape = PoolShape {
        bytes: capacity as u64 * BLOCK_BYTES,
        segments,
        block_bytes: BLOCK_BYTES,
        replicas: 1,
        config: Config { eviction_policy, lease_ttl_ms: 200, ..Config::default() },
        quotas: Vec::new(),
    };
    let mut pool = Pool::new(&shape).expect("a sound pool");
    for number in 0..trace.requests.len() {
        pool.request(trace, number);
    }
    pool.tally().hits
}

fn percent(trace: &Trace, hits: u64) -> f64 {
    hits as f64 * 100.0 / trace.blocks() as f64
}

/// The expected figures come from another implementation, with an ordered dictionary.
#[test]
fn the_optimum_has_the_known_ratios() {
    let trace = shipped();
    for (share, best) in [(1, 246), (5, 366), (10, 366), (20, 366), (40, 366)] {
        let hits = best_hits(&trace, trace.hash_ids.len() * share / 100);
        assert_eq!((percent(&trace, hits) * 10.0).round() as u32, best, "{share} %");
    }
}

#[test]
fn eviction_is_no_worse_than_lru_and_s3_fifo_on_real_requests() {
    let trace = shipped();
    for share in [1, 5, 10, 20, 40] {
        let capacity = trace.hash_ids.len() * share / 100;
        let [lru, s3_fifo, ours] = [
            lru_hits(&trace, trace.requests.len(), capacity),
            s3_fifo_hits(&trace, capacity),
            pool_hits(&trace, capacity, 1, EvictionPolicy::Adaptive),
        ]
        .map(|hits| percent(&trace, hits));
        assert!(ours >= lru.max(s3_fifo) - 0.2, "{share} %: {ours:.2}, {lru:.2}, {s3_fifo:.2}");
    }
}

#[test]
fn eviction_closes_a_tenth_of_the_gap_between_lru_and_the_optimum() {
    let trace = shipped();
    for (share, segments) in [(5, 1), (10, 1), (5, 16), (10, 16)] {
        let capacity = trace.hash_ids.len() * share / 100;
        let [lru, best, ours] = [
            lru_hits(&trace, trace.requests.len(), capacity),
            best_hits(&trace, capacity),
            pool_hits(&trace, capacity, segments, EvictionPolicy::Adaptive),
        ]
        .map(|hits| percent(&trace, hits));
        let closed = (ours - lru) / (best - lru);
        assert!(closed >= 0.1, "{share} %, {segments} segments: {closed:.3} of the gap, {ours:.2}");
    }
}

/// The master remembers three times as many evicted keys as the reference, which helps in small pools. It may hit more
/// often, and never less often by more than 0.1 percentage points.
#[test]
fn the_s3_fifo_of_the_master_hits_what_an_s3_fifo_does() {
    let trace = shipped();
    for (share, more) in [(1, 3.0), (10, 0.7), (40, 0.1)] {
        let capacity = trace.hash_ids.len() * share / 100;
        let ideal = percent(&trace, s3_fifo_hits(&trace, capacity));
        let ours = percent(&trace, pool_hits(&trace, capacity, 1, EvictionPolicy::S3Fifo));
        assert!((-0.1..more).contains(&(ours - ideal)), "{share} %: {ours:.2}, {ideal:.2}");
    }
}

/// The master counts the last block of a batch as its oldest, so the two differ a little.
#[test]
fn the_lru_of_the_master_is_an_lru() {
    let trace = shipped();
    for share in [1, 10, 40] {
        let capacity = trace.hash_ids.len() * share / 100;
        let ideal = percent(&trace, lru_hits(&trace, trace.requests.len(), capacity));
        let ours = percent(&trace, pool_hits(&trace, capacity, 1, EvictionPolicy::Lru));
        assert!((ours - ideal).abs() < 0.1, "{share} %: {ours:.2}, {ideal:.2}");
    }
}
