//! Many runs of the simulation: `make soak SEEDS=100000`. Each seed runs once for each kind; `--help` lists the flags.
//!
//! Worker processes run some hundred seeds each, so that the memory that runs leak goes with the process. A run that
//! crashes its process or never ends is a finding too. Enter at [`boss::main`] and [`worker::main`]. The progress is a
//! [`state::SoakState`], which a later call may continue.

#![forbid(unsafe_code)]

mod boss;
mod flags;
mod ran;
mod span;
mod state;
mod summary;
mod worker;

use std::process::ExitCode;

use clap::Parser;

use flags::Flags;

fn main() -> ExitCode {
    let flags = Flags::parse();
    if let Some(span) = flags.worker {
        return worker::main(&flags, span);
    }
    match boss::main(&flags) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("soak: {error}");
            ExitCode::from(2)
        }
    }
}
