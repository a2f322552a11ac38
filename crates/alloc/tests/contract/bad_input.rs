use mooncake_alloc::{RangeAllocator, SlabAllocator};

#[test]
fn lengths_that_cannot_be_served_are_refused() {
    for capacity in [0, 1, 1000, 1 << 46, u64::MAX] {
        let mut ranges = RangeAllocator::new(capacity);
        assert_eq!(ranges.alloc(0), None, "no length of {capacity}");
        for len in [capacity.wrapping_add(1), u64::MAX - 1, u64::MAX] {
            assert!(
                (1..=capacity).contains(&len) || ranges.alloc(len).is_none(),
                "{len} of {capacity}"
            );
        }
        ranges.check().unwrap();
        assert_eq!((ranges.used(), ranges.largest_free()), (0, capacity));
    }
}

#[test]
fn slabs_refuse_lengths_that_cannot_be_served() {
    for (capacity, largest) in [(0, 0), (63, 0), (1000, 960), (1 << 30, 1 << 30)] {
        let mut slabs = SlabAllocator::new(capacity);
        for len in [0, largest + 1, capacity + 1, u64::MAX] {
            assert_eq!(slabs.alloc(len), None, "{len} of {capacity}");
        }
        slabs.check().unwrap();
        assert_eq!((slabs.used(), slabs.largest_free()), (0, largest));
    }
}

#[test]
fn the_whole_arena_is_one_range() {
    for capacity in [1, 1000, 4097, (1 << 46) - 1, u64::MAX] {
        let mut ranges = RangeAllocator::new(capacity);
        let all = ranges.alloc(capacity).unwrap();
        assert_eq!((all.offset, ranges.used(), ranges.largest_free()), (0, capacity, 0));
        assert_eq!(ranges.alloc(1), None);
        ranges.check().unwrap();
        ranges.free(all.handle);
        assert_eq!((ranges.used(), ranges.largest_free()), (0, capacity));
    }
}

#[test]
fn places_outside_the_arena_are_refused() {
    let rows = [
        (0, 0),
        (0, 1001),
        (1000, 1),
        (999, 2),
        (u64::MAX, 1),
        (1, u64::MAX),
        (u64::MAX, u64::MAX),
    ];
    for (offset, len) in rows {
        let mut ranges = RangeAllocator::new(1000);
        assert_eq!(ranges.alloc_at(offset, len), None, "[{offset}, +{len})");
        ranges.check().unwrap();
        assert_eq!(ranges.largest_free(), 1000);
    }
    assert_eq!(RangeAllocator::new(0).alloc_at(0, 1), None);
}

#[test]
#[should_panic(expected = "names no live range: it was freed before")]
fn a_range_freed_twice_panics() {
    let mut ranges = RangeAllocator::new(1000);
    let [first, _] = [ranges.alloc(10).unwrap(), ranges.alloc(10).unwrap()];
    ranges.free(first.handle);
    ranges.free(first.handle);
}

#[test]
#[should_panic(expected = "names no live range: it was freed before")]
fn a_range_freed_twice_after_it_was_joined_panics() {
    let mut ranges = RangeAllocator::new(1000);
    let [first, second] = [ranges.alloc(10).unwrap(), ranges.alloc(10).unwrap()];
    ranges.free(first.handle);
    ranges.free(second.handle);
    ranges.free(second.handle);
}

#[test]
#[should_panic(expected = "another allocator returned it")]
fn a_foreign_handle_panics() {
    let mut foreign = RangeAllocator::new(1000);
    let handles: Vec<_> = (0..10).map(|_| foreign.alloc(10).unwrap().handle).collect();
    RangeAllocator::new(1000).free(handles[9]);
}

#[test]
#[should_panic(expected = "names no live range")]
fn the_range_of_a_freed_handle_panics() {
    let mut ranges = RangeAllocator::new(1000);
    let found = ranges.alloc(10).unwrap();
    ranges.free(found.handle);
    ranges.range(found.handle);
}

#[test]
#[should_panic(expected = "names no live range: it was freed before")]
fn a_slot_freed_twice_panics() {
    let mut slabs = SlabAllocator::new(1 << 20);
    let [first, _] = [slabs.alloc(100).unwrap(), slabs.alloc(100).unwrap()];
    slabs.free(first.handle);
    slabs.free(first.handle);
}

#[test]
#[should_panic(expected = "another allocator returned it")]
fn a_foreign_handle_of_slabs_panics() {
    let mut foreign = SlabAllocator::new(1 << 20);
    let found = foreign.alloc(100).unwrap();
    SlabAllocator::new(1 << 20).free(found.handle);
}

#[test]
#[should_panic(expected = "slabs of 100 bytes: not a power of two from 64 to 4194304")]
fn a_slab_length_that_is_no_power_of_two_panics() {
    SlabAllocator::with_slab_bytes(1000, 100);
}
