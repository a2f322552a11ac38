//! `mooncake sim` computes the hits of pools of several sizes and policies, and those of a cache that knows all later
//! requests.
//!
//! `args` defines what to compare, `run` runs the pools on all processors, and `table`, `csv` and `plot` write the
//! results. `tenants` runs several traces in one pool. Enter at [`main`].

mod args;
mod csv;
mod plot;
mod run;
mod table;
mod tenants;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use self::args::SimArgs;
use self::run::Comparison;
use crate::{PoolError, TraceError};

/// Why a comparison failed.
#[derive(Debug, thiserror::Error)]
enum SimError {
    #[error(transparent)]
    Trace(#[from] TraceError),
    #[error(transparent)]
    Pool(#[from] PoolError),
    #[error(
        "a pool of {bytes} bytes has no room for {replicas} replicas of one block of {block_bytes}"
    )]
    NoRoom { bytes: u64, replicas: u32, block_bytes: u64 },
    #[error("cannot write {}: {reason}", path.display())]
    Write { path: PathBuf, reason: io::Error },
}

/// The flags of the program.
#[must_use]
pub fn command() -> clap::Command {
    SimArgs::command()
}

/// Runs the program with `args`, which lack its name. The status is 0, or 1 if the comparison failed, or 2 for wrong
/// arguments.
#[must_use]
pub fn main(args: &[String]) -> ExitCode {
    let name = "mooncake sim".to_owned();
    let args = match SimArgs::try_parse_from(std::iter::once(&name).chain(args)) {
        Ok(args) => args,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    match simulate(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "mooncake sim: {error}");
            ExitCode::FAILURE
        }
    }
}

fn simulate(args: &SimArgs) -> Result<(), SimError> {
    let tenants = args.tenants()?;
    if !tenants.is_empty() {
        let _ = write!(io::stdout(), "{}", tenants::compare(args, &tenants)?);
        return Ok(());
    }
    let trace = args.requests()?;
    if let Some(path) = &args.save_trace {
        let failed = |reason| SimError::Write { path: path.clone(), reason };
        trace.write(BufWriter::new(File::create(path).map_err(failed)?)).map_err(failed)?;
    }
    let comparison = Comparison::run(args, &trace)?;
    let _ = write!(io::stdout(), "{}", table::table(&comparison));
    if let Some(path) = &args.csv {
        write(path, &csv::csv(&comparison))?;
    }
    if let Some(path) = &args.plot {
        write(path, &plot::plot(&comparison))?;
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<(), SimError> {
    std::fs::write(path, text).map_err(|reason| SimError::Write { path: path.into(), reason })
}
