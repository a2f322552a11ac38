//! See [`mooncake_cli::client`]. The code is that of `mooncake`.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    mooncake_cli::alias::run("mooncake_client")
}
