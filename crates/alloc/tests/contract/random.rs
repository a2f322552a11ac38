use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};

use crate::chance;
use crate::model::Model;

#[derive(Clone, Copy, Debug)]
enum Step {
    Alloc {
        len: u64,
    },
    AllocAt {
        offset: u64,
        len: u64,
    },
    /// Frees the live range at `share` of the list's length.
    Free {
        share: u16,
    },
}

fn lens(arena: u64) -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 1..200_u64,
        4 => 1..(arena / 64).max(2),
        2 => 1..(arena / 8).max(2),
        1 => 0..=arena + 1,
    ]
}

fn steps(arena: u64) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => lens(arena).prop_map(|len| Step::Alloc { len }),
        1 => (0..=arena, lens(arena)).prop_map(|(offset, len)| Step::AllocAt { offset, len }),
        5 => any::<u16>().prop_map(|share| Step::Free { share }),
    ];
    prop::collection::vec(step, 1..400)
}

fn run(mut model: Model, steps: &[Step]) {
    for &step in steps {
        match step {
            Step::Alloc { len } => drop(model.alloc(len)),
            Step::AllocAt { offset, len } => drop(model.alloc_at(offset, len)),
            Step::Free { .. } if model.live.is_empty() => {}
            Step::Free { share } => model.free((usize::from(share) * model.live.len()) >> 16),
        }
    }
    while !model.live.is_empty() {
        model.free(model.live.len() / 2);
    }
    assert_eq!(model.gaps().len(), 1);
}

fn check(arena: u64, model: impl Fn() -> Model) {
    let config = ProptestConfig {
        cases: 100,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(chance::seed()),
        ..ProptestConfig::default()
    };
    let outcome = TestRunner::new(config).run(&steps(arena), |steps| {
        run(model(), &steps);
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn random_steps_over_ranges() {
    for arena in [100, 10_000, 1 << 20, (1 << 40) + 12_345] {
        check(arena, || Model::offset(arena));
    }
}

#[test]
fn random_steps_over_slabs() {
    for (arena, slab_bytes) in [(1 << 12, 64), (100_000, 1 << 10), (10 << 20, 1 << 16)] {
        check(arena, || Model::cachelib(arena, slab_bytes));
    }
}

#[test]
fn the_same_steps_give_the_same_ranges() {
    let mut chance = chance::Chance::new(chance::seed());
    let mut twins = [Model::offset(1 << 20), Model::offset(1 << 20)];
    for _ in 0..2000 {
        let (free, at, len) = (chance.below(2) == 0, chance.next(), chance.len(1, 1 << 14));
        let seen = twins.each_mut().map(|model| {
            if free && !model.live.is_empty() {
                model.free((at % model.live.len() as u64) as usize);
                return None;
            }
            model.alloc(len)
        });
        assert_eq!(seen[0], seen[1]);
    }
    assert_eq!(twins[0].live, twins[1].live);
}
