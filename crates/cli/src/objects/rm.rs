//! `mooncake rm`: removes objects. Enter at [`main`].

use std::process::ExitCode;

use clap::Parser;
use clap::builder::NonEmptyStringValueParser;
use mooncake_client::Store;
use mooncake_types::ErrorCode;
use serde_json::json;

use super::outcome::{CommandError, Outcome, complain_of, run};
use super::output::Output;
use super::pattern;
use crate::exit::complain;
use crate::pool::{Pool, PoolFlags};

const PROGRAM: &str = "mooncake rm";

/// Remove objects.
///
/// Once it has ended, no client reads them any more, and no later master finds them. An object that was read moments
/// ago has a lease; only --force removes it before that is over. mooncake ls shows what a prefix or an expression
/// finds.
///
/// The exit status is 0, 3 if a key has no object, 2 for wrong arguments, and 1 otherwise. The other keys are removed
/// in any case.
#[derive(Debug, Parser)]
#[command(name = "mooncake rm", max_term_width = 110)]
pub(crate) struct RmArgs {
    /// The keys of the objects.
    #[arg(value_name = "KEY", required_unless_present_any = ["prefix", "regex"])]
    keys: Vec<String>,
    /// Remove the objects whose keys begin with this text, except for leased ones without --force.
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["keys", "regex"],
          value_parser = NonEmptyStringValueParser::new())]
    prefix: Option<String>,
    /// Remove the objects in whose keys this regular expression finds something, except for leased ones without
    /// --force.
    #[arg(long, value_name = "REGEX", conflicts_with = "keys",
          value_parser = NonEmptyStringValueParser::new())]
    regex: Option<String>,
    /// Remove leased objects, too.
    #[arg(long, short)]
    force: bool,
    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pool: PoolFlags,
}

/// Runs the program with `args`, which lack its name.
#[must_use]
pub(crate) fn main(args: &[String]) -> ExitCode {
    run(PROGRAM, args, |args: &RmArgs| rm(args))
}

fn rm(args: &RmArgs) -> Result<Outcome, CommandError> {
    let pattern = pattern::of(args.prefix.as_deref(), args.regex.as_deref())?;
    let pool = Pool::join(&args.pool)?;
    let (removed, failed) = match args.keys.is_empty() {
        true => {
            (pool.remove_by_regex(&pattern, args.force).map_err(CommandError::refused)?, Vec::new())
        }
        false => by_key(&pool, args),
    };
    let mut output = Output::new();
    if args.json {
        let failed: Vec<_> = failed
            .iter()
            .map(|(key, code)| json!({"key": key, "error": code.name(), "error_code": code.number()}))
            .collect();
        output.line(format_args!("{}", json!({"removed": removed, "failed": failed})))?;
    } else if args.keys.is_empty() {
        let plural = if removed == 1 { "" } else { "s" };
        output.line(format_args!("{removed} object{plural} removed"))?;
    }
    output.flush()?;
    let outcomes = failed.iter().map(|(key, code)| complain_of_removal(key, *code));
    Ok(outcomes.max().unwrap_or(Outcome::Done))
}

/// Removes the objects of these keys. Returns how many were removed, and the keys of the others.
fn by_key<'a>(store: &Store, args: &'a RmArgs) -> (u64, Vec<(&'a str, ErrorCode)>) {
    let keys: Vec<&str> = args.keys.iter().map(String::as_str).collect();
    let results = store.remove(&keys, args.force);
    let failed = keys.iter().zip(&results).filter_map(|(key, result)| Some((*key, result.err()?)));
    let failed: Vec<_> = failed.collect();
    ((keys.len() - failed.len()) as u64, failed)
}

fn complain_of_removal(key: &str, code: ErrorCode) -> Outcome {
    let outcome = complain_of(PROGRAM, key, code);
    if code == ErrorCode::ObjectHasLease {
        complain(format_args!("{PROGRAM}: --force removes it all the same\n"));
    }
    outcome
}
