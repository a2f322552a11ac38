//! Eviction on the requests of a real service. A hit is a block of the longest prefix of a request that is there.

mod trace;

use trace::{Trace, best_hits, lru_hits, meta_hits, s3_fifo_hits};

/// The figures were computed independently, with an ordered dictionary.
#[test]
fn the_yardsticks_have_the_known_ratios() {
    let trace = Trace::shipped();
    let tenths = |hits| (trace.percent(hits) * 10.0).round() as u32;
    for (percent, lru, best) in
        [(1, 52, 246), (5, 195, 366), (10, 278, 366), (20, 345, 366), (40, 360, 366)]
    {
        let capacity = trace.distinct * percent / 100;
        let found = (tenths(lru_hits(&trace, capacity)), tenths(best_hits(&trace, capacity)));
        assert_eq!(found, (lru, best), "{percent} %");
    }
}

#[test]
fn eviction_is_no_worse_than_lru_and_s3_fifo_on_real_requests() {
    let trace = Trace::shipped();
    for percent in [1, 5, 10, 20, 40] {
        let capacity = trace.distinct * percent / 100;
        let [lru, s3_fifo, ours] = [
            lru_hits(&trace, capacity),
            s3_fifo_hits(&trace, capacity),
            meta_hits(&trace, capacity, 1),
        ]
        .map(|hits| trace.percent(hits));
        assert!(ours >= lru.max(s3_fifo) - 0.2, "{percent} %: {ours:.2}, {lru:.2}, {s3_fifo:.2}");
    }
}

#[test]
fn eviction_closes_a_tenth_of_the_gap_between_lru_and_the_optimum() {
    let trace = Trace::shipped();
    for (percent, segments) in [(5, 1), (10, 1), (5, 16), (10, 16)] {
        let capacity = trace.distinct * percent / 100;
        let [lru, best, ours] = [
            lru_hits(&trace, capacity),
            best_hits(&trace, capacity),
            meta_hits(&trace, capacity, segments),
        ]
        .map(|hits| trace.percent(hits));
        let closed = (ours - lru) / (best - lru);
        assert!(
            closed >= 0.1,
            "{percent} %, {segments} segments: {closed:.3} of the gap, {ours:.2}"
        );
    }
}
