//! The share of a full pool that objects of mixed lengths use.

mod churn;

use churn::{Churn, MIXES, Usable};

/// The mean share of a run and its lowest, for each mix.
const LEAST_HELD: [(f64, f64); 2] = [(0.998, 0.99), (0.984, 0.97)];

#[test]
fn objects_of_mixed_lengths_hold_97_percent_of_a_pool_under_eviction() {
    println!("{}", Usable::HEADER);
    for (mix, (mean, least)) in MIXES.iter().zip(LEAST_HELD) {
        for (segments, segment_bytes) in [(1, 2 << 30), (8, 256 << 20)] {
            for reads in [0, 1, 4] {
                let churn = Churn { segments, segment_bytes, turns: 6, reads, seed: 7 };
                let usable = churn.run(mix);
                let row = usable.row(mix, &churn);
                println!("{row}");
                assert!(usable.mean >= mean && usable.least >= least, "{row}");
                assert_eq!(usable.refused, 0, "{row}");
            }
        }
    }
}
