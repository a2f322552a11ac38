use crate::model::Model;

/// Runs every sequence of up to `depth` steps. A step allocates one of `lens`, reserves one of `places`, or frees a
/// live range. Returns the number of steps.
fn every_sequence(model: &Model, depth: u32, lens: &[u64], places: &[(u64, u64)]) -> u64 {
    if depth == 0 {
        return 0;
    }
    let mut steps = 0;
    let mut step = |act: &dyn Fn(&mut Model) -> bool| {
        let mut next = model.clone();
        steps += 1;
        // A refused step changed nothing, so another branch covers its continuations.
        if act(&mut next) {
            steps += every_sequence(&next, depth - 1, lens, places);
        }
    };
    for &len in lens {
        step(&|model| model.alloc(len).is_some());
    }
    for &(offset, len) in places {
        step(&|model| model.alloc_at(offset, len).is_some());
    }
    for at in 0..model.live.len() {
        step(&|model| {
            model.free(at);
            true
        });
    }
    steps
}

fn places(offsets: impl Iterator<Item = u64> + Clone, lens: &[u64]) -> Vec<(u64, u64)> {
    lens.iter().flat_map(|&len| offsets.clone().map(move |offset| (offset, len))).collect()
}

#[test]
fn every_sequence_of_alloc_and_free_on_tiny_arenas() {
    for (arena, depth) in [(1, 10), (2, 10), (5, 8), (8, 8), (12, 8), (16, 7)] {
        let steps = every_sequence(&Model::offset(arena), depth, &[1, 2, 3, 4], &[]);
        println!("arena {arena}: {steps} steps");
    }
}

#[test]
fn every_sequence_with_ranges_reserved_by_place() {
    let places = places(0..9, &[1, 2, 4]);
    let steps = every_sequence(&Model::offset(8), 4, &[1, 2, 3, 4], &places);
    println!("{steps} steps");
}

#[test]
fn every_sequence_with_lengths_that_are_rounded() {
    let lens = [129, 257, 300, 518];
    let steps = every_sequence(&Model::offset(1030), 6, &lens, &[(0, 129), (260, 131), (771, 259)]);
    println!("{steps} steps");
}

#[test]
fn every_sequence_over_slabs() {
    let lens = [1, 64, 80, 200, 256, 257, 768];
    let steps = every_sequence(&Model::cachelib(4 * 256 + 40, 256), 6, &lens, &[]);
    println!("{steps} steps");
}

#[test]
fn every_sequence_over_slabs_with_ranges_reserved_by_place() {
    let places = places((0..=17).map(|at| at * 64), &[64, 80, 100, 256, 300]);
    let steps = every_sequence(&Model::cachelib(4 * 256 + 40, 256), 3, &[64, 80, 300], &places);
    println!("{steps} steps");
}
