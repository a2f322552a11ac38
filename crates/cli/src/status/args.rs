//! The command line of `mooncake status`.

use clap::Parser;

use crate::master_http::MasterHttpFlag;

/// Say which master leads, how full the pool is, and which problems it has.
///
/// This program asks the admin HTTP server of each master in --master-http. It prints one line for each master and
/// each segment, and then the problems.
///
/// The exit status is 0 without problems, and 1 with problems.
#[derive(Debug, Parser)]
#[command(name = "mooncake status", max_term_width = 110)]
pub(super) struct StatusArgs {
    #[command(flatten)]
    pub(super) masters: MasterHttpFlag,
}
