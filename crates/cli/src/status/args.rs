//! The command line of `mooncake status`.

use clap::Parser;

use crate::pool::PoolName;

/// Say which master leads, how full the pool is, and which problems it has.
///
/// This program asks the admin HTTP server of each master. It prints one line for each master, each
/// segment and each running drain, and then the problems. Losses and failed copies are problems for an hour.
///
/// The exit status is 0 without problems, 1 with problems, and 2 for wrong arguments.
#[derive(Debug, Parser)]
#[command(name = "mooncake status", max_term_width = 110)]
pub(super) struct StatusArgs {
    /// The same as --master-http.
    #[arg(value_name = "HOST:PORT", conflicts_with = "master_http")]
    pub(super) given: Vec<String>,
    #[command(flatten)]
    pub(super) masters: PoolName,
    /// Print all of it as one JSON object.
    #[arg(long)]
    pub(super) json: bool,
}
