use std::hash::{BuildHasher, RandomState};

use proptest::test_runner::{Config, RngSeed, TestRunner};

/// A runner of random tests. It prints its seed when a test fails; `WIRE_SEED=<seed>` repeats the same cases.
#[allow(clippy::disallowed_methods, reason = "a test takes its seed from whoever runs it")]
pub(crate) fn runner(cases: u32) -> TestRunner {
    let seed = match std::env::var("WIRE_SEED") {
        Ok(seed) => seed.parse().expect("WIRE_SEED is a number"),
        Err(_) => RandomState::new().hash_one(0),
    };
    println!("WIRE_SEED={seed}");
    TestRunner::new(Config {
        cases,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        ..Config::default()
    })
}
