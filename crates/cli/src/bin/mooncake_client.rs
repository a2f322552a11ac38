//! See [`mooncake_cli::client`].

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    mooncake_cli::with_arguments(mooncake_cli::client::main)
}
