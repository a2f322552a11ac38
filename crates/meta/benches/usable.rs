//! Measures how much of a full pool the objects hold, with mixed lengths and an eviction at each put. It counts bytes
//! rather than time, so each run gives the same figures.
//!
//! `cargo bench -p mooncake-meta --bench usable [-- SEEDS]`: the number of seeds, 3 by default. The test suite runs a
//! smaller version, with bounds.

#[path = "../tests/usable/churn.rs"]
mod churn;

use churn::{Churn, MIXES, Usable};

fn main() {
    let number = std::env::args().skip(1).find_map(|argument| argument.parse::<u64>().ok());
    let seeds = 0..number.unwrap_or(3);
    println!("{}", Usable::HEADER);
    for mix in &MIXES {
        for (segments, segment_bytes) in [(1, 16 << 30), (16, 1 << 30), (64, 256 << 20)] {
            for reads in [0, 1, 4] {
                let churn = |seed| Churn { segments, segment_bytes, turns: 20, reads, seed };
                let runs: Vec<Usable> = seeds.clone().map(|seed| churn(seed).run(mix)).collect();
                let worst = runs.into_iter().min_by(|a, b| a.least.total_cmp(&b.least));
                println!("{}", worst.expect("there are seeds").row(mix, &churn(0)));
            }
        }
    }
}
