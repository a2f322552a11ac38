//! The command line of `mooncake drain`.

use clap::Parser;
use mooncake_types::limits::{DEFAULT_DRAIN_CONCURRENCY, MAX_DRAIN_CONCURRENCY};

use crate::auth_token::TokenFlags;
use crate::pool::PoolName;

/// Move all objects out of segments of a pool, so that their nodes can be removed.
///
/// From the start, the segments take no puts. Each object is moved to a segment with room. Nothing is evicted for it,
/// and it can be read all the time. If no other segment has room, an object with a replica elsewhere loses the replica
/// here. Progress goes to standard error, and the result to standard output.
///
/// A job belongs to the master that leads. If another master takes over, or the master restarts with its state file,
/// it begins a new job for the same segments, and this program follows that. Objects that were moved stay where they
/// are.
///
/// The exit status is 0 once the segments are empty: they are DRAINED, and their nodes can be stopped. It is 1 if an
/// object could not be moved, and the segments then take puts again. It is also 1 if no leader answered for half a
/// minute. With --timeout-sec, it is 3 if the time was over first, and 130 after Ctrl-C. In both cases the job goes
/// on, and its id is printed: --cancel ends it. The same command again follows the running job.
#[derive(Debug, Parser)]
#[command(name = "mooncake drain", max_term_width = 110)]
pub(super) struct DrainArgs {
    /// Names of the segments, as /get_all_segments lists them: by default HOST:PORT of their nodes.
    #[arg(value_name = "SEGMENT", required_unless_present_any = ["cancel", "job"])]
    pub(super) segments: Vec<String>,
    #[command(flatten)]
    pub(super) masters: PoolName,
    #[command(flatten)]
    pub(super) token: TokenFlags,
    /// Segments to move to, separated by commas [default: any with room].
    #[arg(long, value_name = "SEGMENT", value_delimiter = ',', alias = "target_segments")]
    pub(super) target_segments: Vec<String>,
    /// How many objects are moved at a time.
    #[arg(long, value_name = "COUNT", default_value_t = DEFAULT_DRAIN_CONCURRENCY,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_DRAIN_CONCURRENCY)),
          alias = "max_concurrency")]
    pub(super) max_concurrency: u32,
    /// Wait at most this long; 0: until the job has ended.
    #[arg(long, value_name = "SECONDS", default_value_t = 0, alias = "timeout_sec")]
    pub(super) timeout_sec: u64,
    /// Follow a job that runs already, also under the next leader.
    #[arg(long, value_name = "JOB", conflicts_with_all = ["segments", "cancel"])]
    pub(super) job: Option<String>,
    /// Have the segments take puts again, whether they are being drained or are DRAINED. What was moved stays where it
    /// is.
    #[arg(long, conflicts_with_all = ["job", "cancel", "target_segments"])]
    pub(super) undo: bool,
    /// Print the result as one JSON object; progress is text on standard error as ever.
    #[arg(long)]
    pub(super) json: bool,
    /// Cancel a job. Its segments take puts again.
    #[arg(long, value_name = "JOB", conflicts_with = "segments")]
    pub(super) cancel: Option<String>,
}
