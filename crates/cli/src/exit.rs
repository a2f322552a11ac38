//! How a program ends.

use std::process::ExitCode;

use crate::command_line::UsageError;

/// Ends a program that was not started as it should be, or was only asked for its help.
pub(crate) fn usage(program: &str, error: &UsageError) -> ExitCode {
    match error {
        UsageError::Requested(text) => {
            println!("{}", text.trim_end());
            ExitCode::SUCCESS
        }
        error => {
            eprintln!("{program}: {error}\nTry '{program} --help'.");
            ExitCode::from(2)
        }
    }
}

/// Ends a program that could not do its work.
pub(crate) fn failure(program: &str, reason: &str) -> ExitCode {
    eprintln!("{program}: {reason}");
    ExitCode::FAILURE
}
