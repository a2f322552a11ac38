//! `mooncake ls`: the keys of a pool, a page at a time. Enter at [`main`].

use std::process::ExitCode;

use clap::Parser;
use mooncake_client::ObjectLocation;
use mooncake_types::ByteSize;
use serde_json::json;

use super::outcome::{CommandError, Outcome, run};
use super::output::{Output, shown};
use super::pattern;
use crate::pool::{Pool, PoolFlags};

/// List the keys of a pool, in no order.
///
/// The keys come a page at a time, so a pool of any size can be listed. Keys that are put or removed meanwhile may be
/// listed or not; all others are listed once. Listing grants no lease and counts as no read.
///
/// The exit status is 0 even if no key is found, 2 for wrong arguments, and 1 otherwise.
#[derive(Debug, Parser)]
#[command(name = "mooncake ls", max_term_width = 110)]
pub(crate) struct LsArgs {
    /// Only keys that begin with this text.
    #[arg(value_name = "PREFIX")]
    prefix: Option<String>,
    /// Only keys in which this regular expression finds something.
    #[arg(long, value_name = "REGEX", conflicts_with = "prefix")]
    regex: Option<String>,
    /// Print also length, replicas and media.
    #[arg(long, short)]
    long: bool,
    /// Print at most so many keys.
    #[arg(long, value_name = "COUNT", default_value_t = u64::MAX, hide_default_value = true)]
    limit: u64,
    /// End each key with a NUL byte instead of a line end, for keys with line ends and xargs -0.
    #[arg(long, short = '0', conflicts_with_all = ["long", "json"])]
    null: bool,
    /// Print a line of JSON for each key.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pool: PoolFlags,
}

/// Runs the program with `args`, which lack its name.
#[must_use]
pub(crate) fn main(args: &[String]) -> ExitCode {
    run("mooncake ls", args, |args: &LsArgs| ls(args))
}

fn ls(args: &LsArgs) -> Result<Outcome, CommandError> {
    let pattern = pattern::of(args.prefix.as_deref(), args.regex.as_deref())?;
    let pool = Pool::join(&args.pool)?;
    let mut output = Output::new();
    let (mut cursor, mut left) = (Some(0), args.limit);
    while let Some(at) = cursor.filter(|_| left > 0) {
        let (found, next) = pool.list_page_by_regex(&pattern, at).map_err(CommandError::refused)?;
        for (key, location) in
            &found[..found.len().min(usize::try_from(left).unwrap_or(usize::MAX))]
        {
            print(args, key, location, &mut output)?;
            left -= 1;
        }
        output.flush()?;
        cursor = next;
    }
    Ok(Outcome::Done)
}

fn print(
    args: &LsArgs,
    key: &str,
    location: &ObjectLocation,
    output: &mut Output,
) -> Result<(), CommandError> {
    if args.null {
        output.bytes(key.as_bytes())?;
        return output.bytes(b"\0");
    }
    let ObjectLocation { version, len, replicas } = location;
    let media: Vec<&str> = replicas.iter().map(|replica| replica.medium().tier()).collect();
    if args.json {
        let version = version.to_string();
        return output.line(format_args!(
            "{}",
            json!({"key": key, "len_bytes": len, "version": version, "media": media})
        ));
    }
    match args.long {
        true => {
            let size = ByteSize(*len).to_string();
            output.line(format_args!("{size:>12}  {:<20}  {}", media.join(","), shown(key)))
        }
        false => output.line(format_args!("{}", shown(key))),
    }
}
