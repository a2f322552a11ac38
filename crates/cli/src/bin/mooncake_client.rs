//! See [`mooncake_cli::client`]. This program runs `mooncake`.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    mooncake_cli::alias::run("mooncake_client")
}
