//! `mooncake exists`: whether keys have objects. Enter at [`main`].

use std::process::ExitCode;

use clap::Parser;
use mooncake_client::ProbeLeases;
use serde_json::json;

use super::outcome::{CommandError, Outcome, complain_of, run};
use super::output::{Output, shown};
use crate::pool::{Pool, PoolFlags};

const PROGRAM: &str = "mooncake exists";

/// Say whether keys have objects.
///
/// The question grants no lease, and counts in no hit ratio. The exit status is 0 if all keys have objects, 3 if one
/// has none, 2 for wrong arguments, and 1 otherwise.
#[derive(Debug, Parser)]
#[command(name = "mooncake exists", max_term_width = 110)]
pub(crate) struct ExistsArgs {
    /// The keys.
    #[arg(value_name = "KEY", required = true)]
    keys: Vec<String>,
    /// Print nothing: the exit status answers.
    #[arg(long, short, conflicts_with = "json")]
    quiet: bool,
    /// Print a line of JSON for each key.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pool: PoolFlags,
}

/// Runs the program with `args`, which lack its name.
#[must_use]
pub(crate) fn main(args: &[String]) -> ExitCode {
    run(PROGRAM, args, |args: &ExistsArgs| exists(args))
}

fn exists(args: &ExistsArgs) -> Result<Outcome, CommandError> {
    let pool = Pool::join(&args.pool)?;
    let keys: Vec<&str> = args.keys.iter().map(String::as_str).collect();
    let answers = pool.probe(&keys, ProbeLeases::None);
    let (mut output, mut worst) = (Output::new(), Outcome::Done);
    for (key, answer) in keys.into_iter().zip(answers) {
        let is_there = match answer {
            Ok(is_there) => is_there,
            Err(code) => {
                worst = worst.max(complain_of(PROGRAM, key, code));
                continue;
            }
        };
        if !is_there {
            worst = worst.max(Outcome::Absent);
        }
        if args.json {
            output.line(format_args!("{}", json!({"key": key, "exists": is_there})))?;
        } else if !args.quiet {
            let word = if is_there { "yes" } else { "no" };
            output.line(format_args!("{word:<3}  {}", shown(key)))?;
        }
    }
    output.flush()?;
    Ok(worst)
}
