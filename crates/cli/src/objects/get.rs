//! `mooncake get`: the bytes of an object, to standard output or to a file. Enter at [`main`].

use std::path::PathBuf;
use std::process::ExitCode;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use clap::Parser;
use mooncake_client::Store;
use mooncake_types::ErrorCode;
use serde_json::json;

use super::outcome::{CommandError, Outcome, complain_of, run};
use super::output::Output;
use super::parts::{self, MoveError, PART_BYTES, only};
use super::target::Target;
use crate::pool::{Pool, PoolFlags};

const PROGRAM: &str = "mooncake get";

/// Write the bytes of an object to standard output, or to a file.
///
/// The bytes are those of one version. If the get fails, no file is made, and an old one of its name stays. A large
/// object moves in parts of 16 MiB; at a terminal a bar shows how far it is.
///
/// The exit status is 0, 3 if there is no such object, 2 for wrong arguments, and 1 otherwise.
#[derive(Debug, Parser)]
#[command(name = "mooncake get", max_term_width = 110)]
pub(crate) struct GetArgs {
    /// The key of the object.
    #[arg(value_name = "KEY")]
    key: String,
    /// Write to this file; - is standard output [default: standard output, which shows only text if it is a terminal].
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print one line of JSON: the length, and without --output the bytes in Base64.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pool: PoolFlags,
}

/// Runs the program with `args`, which lack its name.
#[must_use]
pub(crate) fn main(args: &[String]) -> ExitCode {
    run(PROGRAM, args, |args: &GetArgs| get(args))
}

fn get(args: &GetArgs) -> Result<Outcome, CommandError> {
    let pool = Pool::join(&args.pool)?;
    let mut target = match (args.json, &args.output) {
        (true, None) => Target::Memory(Vec::new()),
        (_, output) => Target::open(output.as_deref())?,
    };
    match copy(&pool, &args.key, &mut target) {
        Ok(len) => {
            target.finish()?;
            if args.json {
                print_json(args, len, &target)?;
            }
            Ok(Outcome::Done)
        }
        Err(MoveError::Pool(code)) => fail(args, code),
        Err(MoveError::Other(error)) => Err(error),
    }
}

fn copy(store: &Store, key: &str, target: &mut Target) -> Result<u64, MoveError> {
    let len = only(store.locate_to_get(&[key]))?.len;
    if len > PART_BYTES {
        return parts::read(store, key, |bytes| target.write(bytes));
    }
    let buffer = only(store.get(&[key]))?;
    target.write(buffer.as_slice()).map_err(MoveError::Other)?;
    Ok(buffer.len() as u64)
}

fn print_json(args: &GetArgs, len: u64, target: &Target) -> Result<(), CommandError> {
    let mut line = json!({"key": args.key, "len_bytes": len});
    match (target, &args.output) {
        (Target::Memory(bytes), _) => line["value_base64"] = BASE64_STANDARD.encode(bytes).into(),
        (_, Some(path)) => line["file"] = path.display().to_string().into(),
        _ => {}
    }
    let mut output = Output::new();
    output.line(format_args!("{line}"))?;
    output.flush()
}

fn fail(args: &GetArgs, code: ErrorCode) -> Result<Outcome, CommandError> {
    if args.json {
        let mut output = Output::new();
        let line = json!({"key": args.key, "error": code.name(), "error_code": code.number()});
        output.line(format_args!("{line}"))?;
        output.flush()?;
    }
    Ok(complain_of(PROGRAM, &args.key, code))
}
