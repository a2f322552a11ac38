//! See [`mooncake_cli::master`].

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    mooncake_cli::with_arguments(mooncake_cli::master::main)
}
