//! `mooncake pin`: pins objects softly, and ends such pins. Enter at [`main`].

use std::process::ExitCode;

use clap::Parser;
use mooncake_types::{ErrorCode, limits};
use serde::Deserialize;
use serde_json::json;

use super::outcome::{CommandError, Outcome, complain_of, run};
use super::output::Output;
use crate::admin_masters::Masters;
use crate::pool::PoolFlags;
use crate::quantity::Milliseconds;

const PROGRAM: &str = "mooncake pin";

/// Pin objects softly for a time: they are evicted only if nothing else is left.
///
/// The pin begins anew with each call, whatever the put asked for. A hard pin stays. The next leader does not know
/// these pins. It is done through admin HTTP, which a pool without masters lacks.
///
/// The exit status is 0, 3 if a key has no object, 2 for wrong arguments, and 1 otherwise.
#[derive(Debug, Parser)]
#[command(name = "mooncake pin", max_term_width = 110)]
pub(crate) struct PinArgs {
    /// The keys of the objects.
    #[arg(value_name = "KEY", required = true)]
    keys: Vec<String>,
    /// How long, like 90s, 10m or 2h; the master has a limit, --max_kv_soft_pin_ttl.
    #[arg(long = "for", value_name = "DURATION", default_value = "30m")]
    length: Milliseconds,
    /// End the soft pins instead.
    #[arg(long, conflicts_with = "length")]
    undo: bool,
    /// Print a line of JSON for each key.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pool: PoolFlags,
}

#[derive(Deserialize)]
struct Pinned {
    results: Vec<KeyResult>,
}

#[derive(Deserialize)]
struct KeyResult {
    key: String,
    error_code: i32,
}

/// Runs the program with `args`, which lack its name.
#[must_use]
pub(crate) fn main(args: &[String]) -> ExitCode {
    run(PROGRAM, args, |args: &PinArgs| pin(args))
}

fn pin(args: &PinArgs) -> Result<Outcome, CommandError> {
    let token = args.pool.token.token().map_err(|error| CommandError::usage(error.to_string()))?;
    let tenant = args.pool.tenant.tenant().map_err(CommandError::usage)?;
    let addresses = args.pool.name.admin_addresses().map_err(CommandError::failed)?;
    let mut masters = Masters::at(&addresses, token);
    let (mut output, mut worst) = (Output::new(), Outcome::Done);
    for keys in args.keys.chunks(limits::MAX_BATCH_KEYS) {
        let (path, body) = match args.undo {
            true => ("/api/v1/soft_unpin", json!({"keys": keys, "tenant_id": tenant.name()})),
            false => (
                "/api/v1/soft_pin",
                json!({"keys": keys, "tenant_id": tenant.name(), "ttl_ms": args.length.0}),
            ),
        };
        let answer: Pinned = masters
            .ask("POST", path, &body.to_string())
            .map_err(|error| CommandError::failed(error.to_string()))?;
        for KeyResult { key, error_code } in answer.results {
            let code = ErrorCode::from_number(error_code).unwrap_or(ErrorCode::InternalError);
            if args.json {
                output.line(format_args!("{}", json!({"key": key, "error_code": error_code})))?;
            }
            if error_code != 0 {
                worst = worst.max(complain_of(PROGRAM, &key, code));
            }
        }
    }
    output.flush()?;
    Ok(worst)
}
