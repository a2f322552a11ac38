//! Many runs of the simulation: `make soak SEEDS=100000`. Each seed is run once for each kind; `--help` lists the flags.
//!
//! Seeds are run in processes of their own, some hundred in each: what runs leak goes with them, and a run that ends its
//! process or never ends is found like all that is wrong. Enter at [`boss::main`] and [`worker::main`]; what was done is a
//! [`state::SoakState`], which a later call may go on with.

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
