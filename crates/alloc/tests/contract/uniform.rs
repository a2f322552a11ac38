use mooncake_alloc::{Handle, Range, RangeAllocator, SlabAllocator};

use crate::chance::{self, Chance};

/// Lengths from one byte to 64 MiB: around every power of two, and random ones.
fn lens() -> Vec<u64> {
    let mut chance = Chance::new(chance::seed());
    let powers = (0..=26).flat_map(|power| {
        let len = 1_u64 << power;
        [len.saturating_sub(1), len, len + 1, len + len / 2, len + len / 3]
    });
    let random = (0..200).map(|_| chance.len(1, 1 << 26));
    powers.chain(random).filter(|len| (1..=1 << 26).contains(len)).collect()
}

/// Allocates ranges of one length until no more fit.
fn fill(arena: &mut RangeAllocator, len: u64) -> Vec<Handle> {
    std::iter::from_fn(|| arena.alloc(len)).map(|found| found.handle).collect()
}

#[test]
fn ranges_of_one_length_fill_the_arena() {
    for len in lens() {
        let capacity = len * 500 + 77;
        let mut arena = RangeAllocator::new(capacity);
        let filled = fill(&mut arena, len).len();
        let usable = filled as f64 * len as f64 / capacity as f64;
        assert!(usable >= if len > 7 { 0.98 } else { 0.85 }, "{len} bytes: {usable}");
        arena.check().unwrap();
    }
}

#[test]
fn a_range_of_the_length_that_was_freed_last_takes_its_place() {
    let mut arena = RangeAllocator::new(1000);
    let [_, second, _] = [100, 100, 100].map(|len| arena.alloc(len).unwrap());
    arena.free(second.handle);
    assert_eq!((arena.used(), arena.allocations()), (200, 2));
    arena.check().unwrap();
    assert_eq!(arena.alloc(100), Some(second), "the same handle and the same place");
    assert_eq!(arena.range(second.handle), Range { offset: 100, len: 100 });
    arena.free(second.handle);
    assert_eq!(arena.alloc(101).unwrap().offset, 300, "too long for it");
    assert_eq!(arena.alloc(60).unwrap().offset, 100, "it was not lost");
    arena.check().unwrap();
}

#[test]
fn the_range_that_was_freed_last_counts_as_free() {
    let mut arena = RangeAllocator::new(300);
    let [_, second, third] = [100, 100, 100].map(|len| arena.alloc(len).unwrap());
    arena.free(second.handle);
    assert_eq!(arena.largest_free(), 100);
    arena.free(third.handle);
    assert_eq!(arena.largest_free(), 200, "it is joined with its neighbour");
    arena.check().unwrap();
}

#[test]
fn ranges_of_one_length_fill_the_arena_again_after_random_ones_went() {
    let mut chance = Chance::new(chance::seed());
    for len in [1, 100, 4097, 65_535, 1 << 20, (1 << 20) + 1, 3_333_333, 16 << 20] {
        let mut arena = RangeAllocator::new(len * 2000);
        let mut handles = fill(&mut arena, len);
        let full = handles.len();
        for _ in 0..5 {
            chance.shuffle(&mut handles);
            handles.drain(full / 3..).for_each(|handle| arena.free(handle));
            handles.extend(fill(&mut arena, len));
            assert_eq!(handles.len(), full, "{len} bytes");
        }
        arena.check().unwrap();
    }
}

#[test]
fn a_live_range_costs_19_bytes_and_an_empty_arena_10_kib() {
    for capacity in [1 << 10, 1 << 30, 1 << 46, u64::MAX] {
        assert!(RangeAllocator::new(capacity).heap_bytes() < 10 << 10);
        assert!(SlabAllocator::new(capacity).heap_bytes() < 10 << 10);
    }
    let mut arena = RangeAllocator::new(1 << 40);
    let mut slabs = SlabAllocator::new(1 << 40);
    for live in 1..=200_000_u64 {
        arena.alloc(100_000).unwrap();
        slabs.alloc(100_000).unwrap();
        if live >= 10_000 && live.is_multiple_of(777) {
            let each = arena.heap_bytes() as f64 / live as f64;
            assert!(each <= 19.0, "{each} bytes for each of {live} ranges");
            let each = slabs.heap_bytes() as f64 / live as f64;
            assert!(each <= 16.0, "{each} bytes for each of {live} slots");
        }
    }
}

#[test]
fn slabs_of_one_length_are_filled_as_documented() {
    for len in lens().into_iter().filter(|&len| len > 64) {
        let mut slabs = SlabAllocator::new(1 << 30);
        let count = std::iter::from_fn(|| slabs.alloc(len)).take(1 << 14).count() as u64;
        let usable = (count * len) as f64 / slabs.used() as f64;
        let eighth = slabs.used() < 1 << 30 || len < 8 << 19;
        assert!(
            usable > 0.49 && (!eighth || len > 4 << 16 || usable > 0.83),
            "{len} bytes: {usable}"
        );
    }
}
