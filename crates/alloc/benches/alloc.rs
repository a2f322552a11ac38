//! The time of one allocation, the usable share of an arena, and the memory that a live range needs.
//!
//! `cargo bench -p mooncake-alloc [-- RANGES...]` takes the numbers of live ranges (default 50,000, a large segment,
//! and 1,000,000). Times are the best of three runs. Ranges are freed in random order: with a million of them, a free
//! misses the cache two or three times. Nothing else is timed.

#![allow(clippy::disallowed_methods, reason = "a benchmark needs a clock")]

use std::hint::black_box;
use std::time::Instant;

use mooncake_alloc::{Allocator, Handle, RangeAllocator, SlabAllocator};

const RUNS: usize = 3;
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// SplitMix64.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
        ((u128::from(z) * u128::from(bound)) >> 64) as u64
    }
}

/// The distribution of the lengths in bytes.
struct Workload {
    name: &'static str,
    mean: u64,
    len: fn(&mut Dice) -> u64,
}

const WORKLOADS: [Workload; 4] = [
    Workload { name: "uniform 64 KiB", mean: 64 * KIB, len: |_| 64 * KIB },
    Workload { name: "uniform 1,000,003 B", mean: 1_000_003, len: |_| 1_000_003 },
    Workload {
        name: "1 MiB give or take 1 %",
        mean: MIB,
        len: |dice| MIB - 10_000 + dice.roll(20_000),
    },
    Workload {
        name: "mixed 4 KiB to 4 MiB",
        // A random power of two plus a random part of it.
        mean: (4 * KIB * ((1 << 10) - 1) / 10) * 3 / 2,
        len: |dice| {
            let power = (4 * KIB) << dice.roll(10);
            power + dice.roll(power)
        },
    },
];

type New = fn(u64) -> Allocator;

const ALLOCATORS: [(&str, New); 2] = [
    ("offset", |len| Allocator::Offset(RangeAllocator::new(len))),
    ("cachelib", |len| Allocator::Cachelib(SlabAllocator::new(len))),
];

/// The figures of one run, in nanoseconds per operation unless stated otherwise.
#[derive(Clone, Copy)]
struct Figures {
    /// To fill an empty arena to nine tenths.
    fill: f64,
    /// To free a random range and allocate another.
    pair: f64,
    /// Refused allocations per thousand, in the steady state.
    refused: f64,
    /// Heap bytes per live range after the steady state.
    bytes: f64,
    /// To free all ranges in random order.
    drain: f64,
}

impl Figures {
    fn best(self, other: Figures) -> Figures {
        Figures {
            fill: self.fill.min(other.fill),
            pair: self.pair.min(other.pair),
            drain: self.drain.min(other.drain),
            ..other
        }
    }
}

fn per(start: Instant, count: usize) -> f64 {
    start.elapsed().as_nanos() as f64 / count.max(1) as f64
}

fn fill(arena: &mut Allocator, lens: &[u64], share: f64) -> Vec<Handle> {
    let limit = (arena.capacity() as f64 * share) as u64;
    let mut live = Vec::with_capacity(lens.len());
    for &len in lens.iter().cycle() {
        if arena.used() + len > limit {
            break;
        }
        let Some(found) = arena.alloc(len) else { break };
        live.push(found.handle);
    }
    live
}

fn shuffle(handles: &mut [Handle], dice: &mut Dice) {
    for last in (1..handles.len()).rev() {
        handles.swap(last, dice.roll(last as u64 + 1) as usize);
    }
}

fn measure(new: New, workload: &Workload, ranges: usize) -> Figures {
    let mut dice = Dice(42);
    let capacity = (workload.mean as f64 * ranges as f64 / 0.9) as u64;
    let lens: Vec<u64> = (0..ranges).map(|_| (workload.len)(&mut dice)).collect();
    let mut arena = new(capacity);

    let start = Instant::now();
    let mut live = fill(&mut arena, &lens, 0.9);
    let fill = per(start, live.len());

    shuffle(&mut live, &mut dice);
    let pairs = live.len();
    let mut refused = 0;
    let mut lens = lens.into_iter().rev().cycle();
    let start = Instant::now();
    live.retain_mut(|handle| {
        arena.free(*handle);
        let found = arena.alloc(lens.next().expect("as many lengths as ranges"));
        refused += u32::from(found.is_none());
        found.is_some_and(|found| {
            *handle = found.handle;
            true
        })
    });
    let pair = per(start, pairs);
    let bytes = arena.heap_bytes() as f64 / live.len() as f64;

    shuffle(&mut live, &mut dice);
    let start = Instant::now();
    live.iter().for_each(|&handle| arena.free(handle));
    let drain = per(start, live.len());
    black_box(&arena);
    Figures { fill, pair, refused: f64::from(refused) * 1000.0 / pairs as f64, bytes, drain }
}

/// The share of an arena that ranges of one length fill, in percent.
fn usable(new: New, len: u64) -> f64 {
    let capacity = 1000 * len.max(64 * KIB);
    let mut arena = new(capacity);
    let count = std::iter::from_fn(|| arena.alloc(len)).count() as u64;
    (count * len) as f64 * 100.0 / capacity as f64
}

fn print_times(ranges: usize) {
    println!("{ranges} live ranges at 90 % full, nanoseconds; best of {RUNS} runs");
    println!(
        "{:<10} {:<24} {:>8} {:>12} {:>8} {:>10} {:>12}",
        "allocator", "lengths", "fill", "free+alloc", "drain", "refused", "bytes/range"
    );
    for (name, new) in ALLOCATORS {
        for workload in &WORKLOADS {
            let run = |_| measure(new, workload, ranges);
            let best = (0..RUNS).map(run).reduce(Figures::best).expect("there are runs");
            let Figures { fill, pair, refused, bytes, drain } = best;
            println!(
                "{name:<10} {:<24} {fill:>8.1} {pair:>12.1} {drain:>8.1} {refused:>8.2} ‰ {bytes:>12.1}",
                workload.name
            );
        }
    }
    println!();
}

fn print_usable() {
    let lens = [
        ("100 B", 100),
        ("1000 B", 1000),
        ("4 KiB + 1", 4 * KIB + 1),
        ("64 KiB", 64 * KIB),
        ("64 KiB + 1", 64 * KIB + 1),
        ("700,001 B", 700_001),
        ("1 MiB + 1", MIB + 1),
        ("3,000,000 B", 3_000_000),
        ("5 MiB", 5 * MIB),
        ("64 MiB - 1", 64 * MIB - 1),
    ];
    println!("usable by ranges of one length, percent");
    println!("{:<14} {:>8} {:>9}", "length", "offset", "cachelib");
    for (name, len) in lens {
        let [offset, cachelib] = ALLOCATORS.map(|(_, new)| usable(new, len));
        println!("{name:<14} {offset:>8.2} {cachelib:>9.2}");
    }
    println!();
}

fn main() {
    let asked: Vec<usize> = std::env::args().skip(1).filter_map(|a| a.parse().ok()).collect();
    let sizes = if asked.is_empty() { vec![50_000, 1_000_000] } else { asked };
    sizes.into_iter().for_each(print_times);
    print_usable();
    for (name, new) in ALLOCATORS {
        println!("{name}: an empty arena of 64 GiB holds {} bytes", new(64 << 30).heap_bytes());
    }
}
