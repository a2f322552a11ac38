//! `mooncake bench`: what a pool gives from here. Enter at [`main`].
//!
//! `measure` puts, gets and looks up, `row` is one line of the result, `report` prints and compares, `stop` ends it.

mod args;
mod measure;
mod report;
mod row;
mod stop;

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use mooncake_types::ErrorCode;

pub(crate) use self::args::BenchArgs;
use self::measure::{Bench, BenchError};
use self::report::Report;
use self::stop::Stop;
use crate::exit::complain;
use crate::objects::outcome::{CommandError, Outcome, meaning, run};
use crate::objects::output::Output;
use crate::pool::Pool;

const PROGRAM: &str = "mooncake bench";

/// Runs the program with `args`, which lack its name.
#[must_use]
pub(crate) fn main(args: &[String]) -> ExitCode {
    run(PROGRAM, args, |args: &BenchArgs| bench(args))
}

fn bench(args: &BenchArgs) -> Result<Outcome, CommandError> {
    let before = args.compare.as_deref().map(read).transpose()?;
    let stop = Stop::catch()
        .map_err(|error| CommandError::failed(format!("cannot catch signals: {error}")))?;
    let pool = Pool::join_lending(&args.pool, args.lend.0)?;
    let bench = Bench::new(&pool, args, &stop);
    let measured = bench.run();
    let cleaned = bench.clean();
    let rows = measured.map_err(|error| explain(&error))?;
    cleaned.map_err(|code| {
        let reason = format!("objects whose keys begin with {} stay in the pool: ", bench.prefix());
        CommandError::failed(reason + &meaning(code))
    })?;
    let report = Report::new(args.pool.name.master(), rows);
    let mut output = Output::new();
    match args.json {
        true => output.line(format_args!("{}", report.to_json()))?,
        false => output.bytes(report.table(before.as_ref()).as_bytes())?,
    }
    output.flush()?;
    if let Some(path) = &args.save {
        let failed =
            |error| CommandError::failed(format!("cannot write {}: {error}", path.display()));
        fs::write(path, format!("{:#}\n", report.to_json())).map_err(failed)?;
    }
    Ok(Outcome::Done)
}

/// The report of a former run.
fn read(path: &Path) -> Result<Report, CommandError> {
    let shown = path.display();
    let text = fs::read_to_string(path)
        .map_err(|error| CommandError::failed(format!("cannot read {shown}: {error}")))?;
    Report::read(&text).map_err(|error| {
        CommandError::failed(format!("{shown} is no report of mooncake bench: {error}"))
    })
}

fn explain(error: &BenchError) -> CommandError {
    match error {
        BenchError::Refused { code: ErrorCode::NoAvailableHandle, .. } => {
            complain(format_args!("{PROGRAM}: --lengths takes shorter ones\n"));
            CommandError::failed(error.to_string())
        }
        BenchError::Interrupted => CommandError::Interrupted,
        _ => CommandError::failed(error.to_string()),
    }
}
