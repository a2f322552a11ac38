//! The command line of `mooncake drain`.

use clap::Parser;
use mooncake_types::limits::{DEFAULT_DRAIN_CONCURRENCY, MAX_DRAIN_CONCURRENCY};

use crate::auth_token::TokenFlags;

/// Move everything that lies in segments of a pool to others, so that their nodes can be taken away.
///
/// Nothing new is put there from the start. Each object is moved to a segment that has room, and nothing is evicted for
/// it; it can be read all the time. Where no other segment has room, an object that has a second replica elsewhere loses
/// the one here. Progress goes to standard error, the result to standard output.
///
/// A job lives in the master that leads. If another one takes over, or it starts again, this program begins the job there
/// anew: what was moved stays moved.
///
/// The exit status is 0 once the segments are empty: they are DRAINED, and their nodes can be stopped. It is 1 if
/// something could not be moved, and the segments then take puts again, or if no master that leads answered for half a
/// minute. With --timeout-sec, it is 3 if the time was over first; the job goes on. SIGINT ends this program, and the job
/// goes on too: --cancel ends it.
#[derive(Debug, Parser)]
#[command(name = "mooncake drain", max_term_width = 110)]
pub(super) struct DrainArgs {
    /// Names of the segments, as /get_all_segments lists them: by default HOST:PORT of their nodes.
    #[arg(value_name = "SEGMENT", required_unless_present_any = ["cancel", "job"])]
    pub(super) segments: Vec<String>,
    /// Where the masters serve admin HTTP, with commas between them; the one that leads is found.
    #[arg(
        long,
        value_name = "HOST:PORT",
        default_value = "127.0.0.1:9003",
        value_delimiter = ',',
        alias = "master_http"
    )]
    pub(super) master_http: Vec<String>,
    #[command(flatten)]
    pub(super) token: TokenFlags,
    /// Segments to move to, with commas between them [default: any that has room].
    #[arg(long, value_name = "SEGMENT", value_delimiter = ',', alias = "target_segments")]
    pub(super) target_segments: Vec<String>,
    /// Objects that are moved at a time.
    #[arg(long, value_name = "COUNT", default_value_t = DEFAULT_DRAIN_CONCURRENCY,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_DRAIN_CONCURRENCY)),
          alias = "max_concurrency")]
    pub(super) max_concurrency: u32,
    /// Wait no longer than this; 0: until the job has ended.
    #[arg(long, value_name = "SECONDS", default_value_t = 0, alias = "timeout_sec")]
    pub(super) timeout_sec: u64,
    /// Watch a job that runs already. It is not begun anew at another master.
    #[arg(long, value_name = "JOB", conflicts_with_all = ["segments", "cancel"])]
    pub(super) job: Option<String>,
    /// Cancel a job; its segments take puts again.
    #[arg(long, value_name = "JOB", conflicts_with = "segments")]
    pub(super) cancel: Option<String>,
}
