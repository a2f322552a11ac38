//! The results as a table, and the pool sizes that reach given shares of the possible hits.

use std::fmt::Write;

use super::run::{Comparison, Row};

/// Shares of all possible hits, in percent, for which the smallest sufficient pool is printed.
const SHARES: [u64; 3] = [80, 90, 95];

/// The whole text.
pub(super) fn table(comparison: &Comparison) -> String {
    let Comparison { requests, blocks, distinct_blocks, segments, replicas, lease_ms, .. } =
        comparison;
    let possible = comparison.percent(comparison.possible_hits);
    let mut text = format!(
        "{requests} requests, {blocks} blocks, {distinct_blocks} distinct; a pool that never evicts hits {possible:.2} %.\n\
         Segments: {segments}. Replicas: {replicas}. Leases: {lease_ms} ms. Hits in % of all blocks:\n\n"
    );
    let names: Vec<&str> =
        comparison.policies.iter().map(|it| it.name()).chain(["optimum"]).collect();
    let _ = writeln!(text, "| pool | blocks | of the distinct | {} |", names.join(" | "));
    let _ = writeln!(text, "|---|---|---|{}", "---|".repeat(names.len()));
    for row in &comparison.rows {
        let share = row.room as f64 * 100.0 / *distinct_blocks as f64;
        let hits = row.tallies.iter().map(|tally| tally.hits).chain([row.best_hits]);
        let cells: String =
            hits.map(|hits| format!(" {:.2} |", comparison.percent(hits))).collect();
        let _ = writeln!(text, "| {} | {} | {share:.1} % |{cells}", size(row.bytes), row.room);
    }
    text.push('\n');
    text.push_str(&needed(comparison));
    text.push_str(&refusals(comparison));
    text
}

/// The smallest pool with which each policy reaches each share of the possible hits.
fn needed(comparison: &Comparison) -> String {
    let mut text = String::new();
    for (at, policy) in comparison.policies.iter().enumerate() {
        let reaches = |share: u64| {
            let enough =
                |row: &&Row| row.tallies[at].hits * 100 >= comparison.possible_hits * share;
            let pool = comparison.rows.iter().find(enough);
            let pool = pool.map_or("none of these".to_owned(), |row| size(row.bytes));
            format!("{share} % from {pool}")
        };
        let shares = SHARES.map(reaches).join(", ");
        let _ = writeln!(text, "Of all possible hits, {} reaches: {shares}.", policy.name());
    }
    text
}

/// Pools in which puts found no room, since all other blocks were leased.
fn refusals(comparison: &Comparison) -> String {
    let refused = |row: &Row| row.tallies.iter().map(|it| it.refused).max().unwrap_or(0);
    let rows = comparison.rows.iter().filter(|row| refused(row) > 0);
    rows.map(|row| {
        let (pool, refused) = (size(row.bytes), refused(row));
        format!("{pool}: up to {refused} blocks found no room, since all else was leased.\n")
    })
    .collect()
}

/// A size with a binary unit.
pub(super) fn size(bytes: u64) -> String {
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let unit = units.into_iter().find(|&(_, shift)| bytes >> shift > 0);
    unit.map_or_else(
        || format!("{bytes} B"),
        |(name, shift)| {
            let value = bytes as f64 / (1u64 << shift) as f64;
            let digits = usize::from(value < 100.0);
            format!("{value:.digits$} {name}")
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_at_most_four_digits() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (105 << 20, "105 MiB"),
            ((3 << 30) + (1 << 29), "3.5 GiB"),
            (1 << 46, "64.0 TiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }
}
