//! The results as comma-separated values.

use std::fmt::Write;

use super::run::Comparison;

const HEAD: &str = "policy,pool_bytes,pool_blocks,distinct_blocks,requests,blocks,hits,hit_ratio,stranded,evicted,refused\n";

/// One line for each pool, and one for the optimum of each size.
pub(super) fn csv(comparison: &Comparison) -> String {
    let mut text = HEAD.to_owned();
    let Comparison { distinct_blocks, requests, blocks, .. } = comparison;
    for row in &comparison.rows {
        let mut line = |name: &str, hits: u64, rest: [String; 3]| {
            let ratio = hits as f64 / *blocks as f64;
            let (bytes, room, rest) = (row.bytes, row.room, rest.join(","));
            let _ = writeln!(
                text,
                "{name},{bytes},{room},{distinct_blocks},{requests},{blocks},{hits},{ratio:.6},{rest}"
            );
        };
        for (policy, tally) in comparison.policies.iter().zip(&row.tallies) {
            let rest = [tally.stranded, tally.evicted, tally.refused].map(|it| it.to_string());
            line(policy.name(), tally.hits, rest);
        }
        line("optimum", row.best_hits, [const { String::new() }; 3]);
    }
    text
}
