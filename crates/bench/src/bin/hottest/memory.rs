//! The allocator of ranges, and checksums.

use std::hint::black_box;

use mooncake_alloc::{Handle, RangeAllocator};
use mooncake_memory::{Buffer, Crc32c};
use mooncake_types::limits::CHUNK_BYTES;

use crate::Row;
use crate::keys::BATCH;

/// How many ranges are allocated at a time.
const LIVE: usize = 50_000;
const KIB: u64 = 1 << 10;
const CHUNKS: usize = 4;

pub(crate) const OPERATIONS: &[Row] = &[
    (
        "free_alloc_uniform",
        "a range freed and one allocated, all of 64 KiB, 90 % full; per pair",
        BATCH,
        uniform,
    ),
    ("free_alloc_mixed", "the same with lengths from 4 KiB to 4 MiB; per pair", BATCH, mixed),
    (
        "crc_chunk",
        "CRC32C of a chunk of 256 KiB, by the instructions that valgrind knows; per chunk",
        CHUNKS,
        checksums,
    ),
];

/// The SplitMix64 generator.
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

/// In each step, frees a random range and allocates another one. A round has a batch of steps.
fn replace(rounds: usize, mut len: impl FnMut(&mut Dice) -> u64) {
    let mut dice = Dice(42);
    let lens: Vec<u64> = (0..LIVE).map(|_| len(&mut dice)).collect();
    let mut arena = RangeAllocator::new(lens.iter().sum::<u64>() / 9 * 10);
    let first: Vec<Handle> =
        lens.iter().filter_map(|&len| arena.alloc(len)).map(|found| found.handle).collect();
    assert_eq!(first.len(), LIVE, "the arena has room for all");
    let mut live: Vec<Option<Handle>> = first.into_iter().map(Some).collect();
    for _ in 0..rounds * BATCH {
        let at = dice.roll(LIVE as u64) as usize;
        if let Some(handle) = live[at].take() {
            arena.free(handle);
        }
        // With mixed lengths, no gap may be long enough. That search is part of the measurement.
        live[at] = arena.alloc(black_box(len(&mut dice))).map(|found| found.handle);
    }
    black_box(&arena);
}

fn uniform(rounds: usize) {
    replace(rounds, |_| 64 * KIB);
}

fn mixed(rounds: usize) {
    replace(rounds, |dice| {
        let power = (4 * KIB) << dice.roll(10);
        power + dice.roll(power)
    });
}

fn checksums(rounds: usize) {
    let bytes = (0..CHUNK_BYTES).map(|at| (at * 31 + at / 251) as u8).collect();
    let buffer = Buffer::from_vec(bytes);
    for _ in 0..rounds * CHUNKS {
        let mut sum = Crc32c::new();
        sum.update_raw(black_box(buffer.raw()));
        black_box(sum.finish());
    }
}
