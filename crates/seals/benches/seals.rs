//! The time to make a seal, which is also that to check one, in nanoseconds.
//!
//! `cargo bench -p mooncake-seals`. Each figure is the best of many rounds of 1000 ranges of objects with keys of 120
//! bytes, to exclude the load of other processes.

#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use mooncake_seals as seals;
use mooncake_types::{Epoch, RangeDrop, RangeRead, RangeWrite, Seal, SealKey, SegmentId, Version};

const RANGES: u64 = 1000;
const KEY_BYTES: usize = 120;
const OBJECT_BYTES: u64 = 1 << 20;
const ROUNDS_FOR: Duration = Duration::from_millis(300);

fn main() {
    let key = SealKey([0x5A; 16]);
    let name = "k".repeat(KEY_BYTES);
    println!("{:<8} {:>8}", "seal", "ns");
    report("read", |at| {
        let (version, offset) = (version(at), at * OBJECT_BYTES);
        let range = RangeRead {
            segment: SegmentId(1 << 99),
            offset,
            version,
            object_offset: 0,
            from: 0,
            len: OBJECT_BYTES,
            seal: Seal::NONE,
        };
        seals::on_read(&key, black_box(&range))
    });
    report("write", |at| {
        let range = RangeWrite {
            segment: SegmentId(1 << 99),
            offset: at * OBJECT_BYTES,
            entry_len: OBJECT_BYTES,
            from: 0,
            len: OBJECT_BYTES,
            key: &name,
            version: version(at),
            grant: version(at),
            object_len: OBJECT_BYTES,
            object_offset: 0,
            attributes: &[],
            seal: Seal::NONE,
        };
        seals::on_write(&key, black_box(&range))
    });
    report("drop", |at| {
        let (offset, version, grant) = (at * OBJECT_BYTES, version(at), version(at));
        let range = RangeDrop { segment: SegmentId(1 << 99), offset, version, grant };
        seals::on_drop(&key, black_box(&range))
    });
}

fn version(counter: u64) -> Version {
    Version { epoch: Epoch(1_700_000_000_000), counter }
}

fn report(name: &str, seal: impl Fn(u64) -> Seal) {
    let (begun, mut best) = (Instant::now(), Duration::MAX);
    while begun.elapsed() < ROUNDS_FOR {
        let round = Instant::now();
        for at in 0..RANGES {
            black_box(seal(at));
        }
        best = best.min(round.elapsed());
    }
    println!("{name:<8} {:>8.1}", best.as_nanos() as f64 / RANGES as f64);
}
