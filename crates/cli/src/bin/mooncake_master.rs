//! See [`mooncake_cli::master`]. This program runs `mooncake`.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    mooncake_cli::alias::run("mooncake_master")
}
