//! The command line of `mooncake top`.

use clap::Parser;

use crate::auth_token::TokenFlags;
use crate::pool::PoolName;

/// Show a pool as it works: how full its tiers and nodes are, hits and misses, bytes a second by the way they took and
/// by tier, puts, evictions, the requests that the leader answers, and what needs you, with what to do.
///
/// Keys: s sorts the segments by another column, r turns the order round, / filters them by a part of their names,
/// domains or states, up and down scroll, q ends.
///
/// All of it comes from the leader's admin HTTP, every two seconds; rates are those of the last seconds, small curves
/// those of the last hour. If the masters have tokens, the token needs the right metrics. The exit status is 0, 2 for
/// wrong arguments, and 1 if no leader answers at the start.
#[derive(Debug, Parser)]
#[command(name = "mooncake top", max_term_width = 110)]
pub(crate) struct TopArgs {
    /// Print a line of JSON every two seconds instead.
    #[arg(long)]
    pub(super) json: bool,
    /// End after so many lines.
    #[arg(long, value_name = "COUNT", requires = "json", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) count: Option<u64>,
    #[command(flatten)]
    pub(super) pool: PoolName,
    #[command(flatten)]
    pub(super) token: TokenFlags,
}
