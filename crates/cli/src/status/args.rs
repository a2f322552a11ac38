//! The command line of `mooncake status`.

use clap::Parser;

/// Say which master leads, how full the pool is, and what is wrong with it.
///
/// This asks the admin HTTP server of each master that --master-http names. It prints one line for each master and each
/// segment, and the problems that it found at the end.
///
/// The exit status is 0 if there are no problems, and 1 if there are some.
#[derive(Debug, Parser)]
#[command(name = "mooncake status", max_term_width = 110)]
pub(super) struct StatusArgs {
    /// Where the masters serve admin HTTP, with commas between them.
    #[arg(
        long,
        value_name = "HOST:PORT",
        default_value = "127.0.0.1:9003",
        value_delimiter = ',',
        alias = "master_http"
    )]
    pub(super) master_http: Vec<String>,
}
