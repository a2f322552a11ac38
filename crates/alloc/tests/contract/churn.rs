use mooncake_alloc::{Allocator, Handle, RangeAllocator, SlabAllocator};

use crate::chance::{self, Chance};

/// Frees random ranges and allocates others, many times, and keeps `share` of the arena in use. Returns how many
/// lengths were refused.
fn churn(
    arena: &mut Allocator,
    share: f64,
    chance: &mut Chance,
    len: fn(&mut Chance) -> u64,
) -> u64 {
    let target = (arena.capacity() as f64 * share) as u64;
    let mut live: Vec<Handle> = Vec::new();
    let mut refused = 0;
    for step in 0..200_000 {
        let next = len(chance);
        while arena.used() + next > target {
            arena.free(live.swap_remove(chance.index(live.len())));
        }
        match arena.alloc(next) {
            Some(found) => live.push(found.handle),
            None => refused += 1,
        }
        if step % 20_000 == 0 {
            arena.check().unwrap();
        }
    }
    chance.shuffle(&mut live);
    live.into_iter().for_each(|handle| arena.free(handle));
    arena.check().unwrap();
    assert_eq!((arena.used(), arena.allocations()), (0, 0));
    assert_eq!(arena.largest_free(), arena.capacity(), "everything is joined again");
    refused
}

#[test]
fn lengths_of_one_kind_are_never_refused_below_a_full_arena() {
    let chance = &mut Chance::new(chance::seed());
    let lens: [fn(&mut Chance) -> u64; 3] =
        [|_| 1 << 20, |_| 123_456, |chance| (1 << 20) - chance.below(1000)];
    for len in lens {
        let mut arena = Allocator::Offset(RangeAllocator::new(1 << 30));
        assert_eq!(churn(&mut arena, 0.97, chance, len), 0);
    }
}

#[test]
fn mixed_lengths_are_rarely_refused_at_nine_tenths() {
    let chance = &mut Chance::new(chance::seed());
    let mut arena = Allocator::Offset(RangeAllocator::new(4 << 30));
    let refused = churn(&mut arena, 0.9, chance, |chance| chance.len(4 << 10, 4 << 20));
    println!("{refused} refused");
    assert!(refused < 2000, "{refused} refused");
}

#[test]
fn slabs_churn() {
    let chance = &mut Chance::new(chance::seed());
    let mut arena = Allocator::Cachelib(SlabAllocator::new(4 << 30));
    let refused = churn(&mut arena, 0.7, chance, |chance| chance.len(4 << 10, 4 << 20));
    println!("{refused} refused");
    assert!(refused < 2000, "{refused} refused");
}
