use mooncake_alloc::{Allocator, RangeAllocator, SlabAllocator};

use crate::chance::{self, Chance};
use crate::model::{Live, Model, rounded};

/// The model after 1,500 random calls.
fn used_for_a_while(mut model: Model, chance: &mut Chance) -> Model {
    for _ in 0..1500 {
        if model.live.len() > 100 && chance.below(2) == 0 {
            model.free(chance.index(model.live.len()));
        } else {
            model.alloc(chance.len(1, 1 << 16));
        }
    }
    model
}

/// Rebuilds the layout of `before` in `after`, and continues with random calls.
fn recover(before: &Model, mut after: Model, len_of: fn(&Live) -> u64, chance: &mut Chance) {
    let mut ranges = before.live.clone();
    chance.shuffle(&mut ranges);
    for live in &ranges {
        let (offset, len) = (live.range.offset, len_of(live));
        assert!(after.alloc_at(offset, len).is_some(), "{live:?}");
        assert_eq!(after.alloc_at(offset, len), None, "{live:?} a second time");
    }
    let layout = |model: &Model| -> Vec<(u64, u64)> {
        model.live.iter().map(|live| (live.range.offset, len_of(live))).collect()
    };
    assert_eq!(layout(&after), layout(before));
    let after = used_for_a_while(after, chance);
    assert!(after.real.used() > 0);
}

#[test]
fn a_layout_of_ranges_is_rebuilt_in_any_order() {
    let chance = &mut Chance::new(chance::seed());
    let before = used_for_a_while(Model::offset(8 << 20), chance);
    recover(&before, Model::offset(8 << 20), |live| live.range.len, chance);
    recover(&before, Model::offset(8 << 20), |live| live.asked, chance);
}

#[test]
fn a_layout_of_slabs_is_rebuilt_in_any_order() {
    let chance = &mut Chance::new(chance::seed());
    let fresh = || Model::cachelib(8 << 20, 1 << 14);
    let before = used_for_a_while(fresh(), chance);
    recover(&before, fresh(), |live| live.range.len, chance);
    recover(&before, fresh(), |live| live.asked, chance);
}

/// Rebuilds the layout of `before` from what nodes report: the offset and the requested length of each range.
fn occupied(before: &Model, mut after: Allocator) -> Vec<(Live, u64)> {
    let ends = before.live.iter().skip(1).map(|next| next.range.offset);
    let ends = ends.chain([before.real.capacity()]);
    let occupy = |(live, free_until): (&Live, u64)| {
        let (offset, len) = (live.range.offset, live.asked);
        assert_eq!(after.occupy(offset, len, offset + len - 1), None, "{live:?} past the next");
        let found = after.occupy(offset, len, free_until).unwrap_or_else(|| panic!("{live:?}"));
        assert_eq!(after.occupy(offset, len, free_until), None, "{live:?} a second time");
        after.check().unwrap();
        (*live, after.range(found.handle).len)
    };
    let layout = before.live.iter().zip(ends).map(occupy).collect();
    assert_eq!(after.allocations(), before.live.len());
    layout
}

/// A range may have received a hole that was shorter than its rounded length. Once the range behind it is freed, its
/// length is unknown, so the rebuilt range has the full rounded length.
#[test]
fn a_layout_is_rebuilt_from_what_nodes_know_of_it() {
    let chance = &mut Chance::new(chance::seed());
    let before = used_for_a_while(Model::offset(8 << 20), chance);
    let layout = occupied(&before, Allocator::Offset(RangeAllocator::new(8 << 20)));
    for (live, len) in &layout {
        assert!((live.range.len..=rounded(live.asked)).contains(len), "{live:?}: {len}");
    }
    let same = layout.iter().filter(|(live, len)| live.range.len == *len).count();
    assert!(same * 10 >= layout.len() * 9, "{same} of {}", layout.len());

    let before = used_for_a_while(Model::cachelib(8 << 20, 1 << 14), chance);
    let slabs = SlabAllocator::with_slab_bytes(8 << 20, 1 << 14);
    let layout = occupied(&before, Allocator::Cachelib(slabs));
    assert!(layout.iter().all(|(live, len)| live.range.len == *len));
}

#[test]
fn a_range_that_cannot_have_been_given_is_not_occupied() {
    let both = [
        Allocator::Offset(RangeAllocator::new(1 << 20)),
        Allocator::Cachelib(SlabAllocator::new(1 << 20)),
    ];
    for mut allocator in both {
        let end = 1 << 20;
        for (offset, len, free_until) in [
            (0, 0, end),
            (0, end + 1, u64::MAX),
            (end, 64, u64::MAX),
            (u64::MAX, 2, u64::MAX),
            (4096, 64, 4095),
            (4096, 64, 4159),
            (end - 64, 65, u64::MAX),
        ] {
            let found = allocator.occupy(offset, len, free_until);
            assert_eq!(found, None, "[{offset}, +{len}) until {free_until}");
        }
        assert!(allocator.occupy(4096, 64, 4160).is_some());
        allocator.check().unwrap();
    }
}

#[test]
fn a_hundred_thousand_ranges_are_rebuilt_without_a_scan_for_each() {
    let chance = &mut Chance::new(chance::seed());
    let mut offsets: Vec<u64> = (0..100_000).map(|at| at * 1000).collect();
    chance.shuffle(&mut offsets);
    let mut after = RangeAllocator::new(100_000_000);
    for &offset in &offsets {
        assert!(after.alloc_at(offset, 900).is_some());
    }
    after.check().unwrap();
    assert_eq!((after.used(), after.allocations()), (90_000_000, 100_000));
}

#[test]
fn what_only_recovery_needs_is_given_back_afterwards() {
    let mut after = RangeAllocator::new(1 << 30);
    for at in 0..10_000 {
        after.alloc_at(at * 2000, 1000).unwrap();
    }
    let during = after.heap_bytes();
    for _ in 0..40_000 {
        let found = after.alloc(1000).unwrap();
        after.free(found.handle);
    }
    after.check().unwrap();
    assert!(after.heap_bytes() + 10_000 * 16 < during, "{} of {during}", after.heap_bytes());
    assert!(after.alloc_at(1 << 29, 1000).is_some(), "it is built again when it is needed again");
    after.check().unwrap();
}

#[test]
fn slabs_refuse_places_where_they_put_nothing() {
    let rows = [
        ("off the slots", 8, 64),
        ("of the last slot, whose end is not in the slab", 240, 80),
        ("a run that starts inside a slab", 64, 300),
        ("in what is left after the last slab", 1024, 30),
        ("past the end of the slabs", 960, 100),
        ("no length", 0, 0),
        ("past the end", 1064, 1),
        ("an end that overflows", u64::MAX, 2),
        ("a run past the end", 768, 300),
    ];
    for (place, offset, len) in rows {
        let mut slabs = SlabAllocator::with_slab_bytes(1064, 256);
        assert_eq!(slabs.alloc_at(offset, len), None, "{place}");
        slabs.check().unwrap();
        assert_eq!((slabs.used(), slabs.largest_free()), (0, 1024), "{place}");
    }
}

#[test]
fn a_slab_keeps_its_slot_length_while_it_holds_anything() {
    let mut slabs = SlabAllocator::with_slab_bytes(1024, 256);
    let first = slabs.alloc_at(128, 64).unwrap();
    assert_eq!(slabs.alloc_at(0, 80), None);
    assert_eq!(slabs.alloc_at(0, 256), None);
    assert_eq!(slabs.alloc_at(0, 512), None);
    slabs.free(first.handle);
    assert!(slabs.alloc_at(0, 512).is_some());
    assert_eq!(slabs.alloc_at(256, 64), None, "inside a run");
    slabs.check().unwrap();
}

#[test]
fn both_are_reached_through_one_type() {
    let both = [
        Allocator::Offset(RangeAllocator::new(1 << 20)),
        Allocator::Cachelib(SlabAllocator::new(1 << 20)),
    ];
    for mut allocator in both {
        let found = allocator.alloc_at(4096, 64).unwrap();
        assert_eq!((found.offset, allocator.range(found.handle).len), (4096, 64));
        assert_eq!((allocator.used(), allocator.allocations()), (64, 1));
        allocator.free(found.handle);
        assert_eq!((allocator.largest_free(), allocator.capacity()), (1 << 20, 1 << 20));
        assert!(allocator.heap_bytes() < 10 << 10);
        allocator.check().unwrap();
    }
}
