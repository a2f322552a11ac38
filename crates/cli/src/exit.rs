//! Exit statuses, and output of programs.

use std::fmt;
use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

use crate::command_line::UsageError;

/// Reads the arguments of a subcommand, which lack its name. Otherwise returns the status with which it ends: it has
/// printed its help, or the mistake.
pub(crate) fn parse<P: Parser>(program: &str, args: &[String]) -> Result<P, ExitCode> {
    let args = std::iter::once(program).chain(args.iter().map(String::as_str));
    P::try_parse_from(args).map_err(|error| {
        let _ = error.print();
        ExitCode::from(if error.use_stderr() { 2 } else { 0 })
    })
}

/// Ends a program whose command line is wrong, or only asks for help.
pub(crate) fn usage(program: &str, error: &UsageError) -> ExitCode {
    match error {
        UsageError::Requested(text) => {
            say(format_args!("{}\n", text.trim_end()));
            ExitCode::SUCCESS
        }
        error => {
            complain(format_args!("{program}: {error}\nTry '{program} --help'.\n"));
            ExitCode::from(2)
        }
    }
}

/// Ends a program that failed.
pub(crate) fn failure(program: &str, reason: &str) -> ExitCode {
    complain(format_args!("{program}: {reason}\n"));
    ExitCode::FAILURE
}

/// Writes to standard output, and ignores failures.
pub(crate) fn say(text: fmt::Arguments<'_>) {
    let _ = std::io::stdout().write_fmt(text);
}

/// Writes to standard error, and ignores failures.
pub(crate) fn complain(text: fmt::Arguments<'_>) {
    let _ = std::io::stderr().write_fmt(text);
}
