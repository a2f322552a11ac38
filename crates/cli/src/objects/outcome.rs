//! Exit statuses of the commands that join a pool, and why they fail.

use std::process::ExitCode;

use clap::Parser;
use mooncake_types::{ErrorCode, ShownKey};

use crate::exit::{self, complain};
use crate::logging;
use crate::pool::JoinError;

/// How a command ended that could ask the pool. Of several keys, the last one in this order counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    Done,
    /// A key has no object.
    Absent,
    /// A key has an object already.
    Taken,
    Failed,
}

impl Outcome {
    pub(crate) fn of(code: ErrorCode) -> Self {
        match code {
            ErrorCode::ObjectNotFound => Self::Absent,
            ErrorCode::ObjectAlreadyExists => Self::Taken,
            _ => Self::Failed,
        }
    }

    fn status(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Absent => 3,
            Self::Taken => 4,
        }
    }
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    /// What the arguments ask for is impossible.
    #[error("{reason}")]
    Usage { reason: String },
    #[error("{reason}")]
    Failed { reason: String },
    #[error(transparent)]
    Join(#[from] JoinError),
    /// Ctrl-C ended it.
    #[error("interrupted")]
    Interrupted,
    /// The reader of the output has gone.
    #[error("nobody reads the output")]
    ClosedOutput,
}

/// The status of a program that SIGPIPE has ended, as shells report it.
const CLOSED_PIPE: u8 = 141;
/// The same for SIGINT.
const INTERRUPTED: u8 = 130;

impl CommandError {
    pub(crate) fn usage(reason: impl Into<String>) -> Self {
        Self::Usage { reason: reason.into() }
    }

    pub(crate) fn failed(reason: impl Into<String>) -> Self {
        Self::Failed { reason: reason.into() }
    }

    /// The pool refused a call that is about no single key.
    pub(crate) fn refused(code: ErrorCode) -> Self {
        Self::failed(meaning(code))
    }

    fn status(&self) -> u8 {
        match self {
            Self::Usage { .. } => 2,
            Self::ClosedOutput => CLOSED_PIPE,
            Self::Interrupted => INTERRUPTED,
            Self::Failed { .. } | Self::Join(_) => 1,
        }
    }
}

/// Reads the arguments of a program, and runs it.
pub(crate) fn run<P: Parser>(
    program: &str,
    args: &[String],
    work: impl FnOnce(&P) -> Result<Outcome, CommandError>,
) -> ExitCode {
    let args = match exit::parse(program, args) {
        Ok(args) => args,
        Err(status) => return status,
    };
    logging::start_if_asked();
    match work(&args) {
        Ok(outcome) => ExitCode::from(outcome.status()),
        Err(error) => {
            if !matches!(error, CommandError::ClosedOutput | CommandError::Interrupted) {
                complain(format_args!("{program}: {error}\n"));
            }
            ExitCode::from(error.status())
        }
    }
}

/// Says on standard error what went wrong with a key. Returns the outcome.
pub(crate) fn complain_of(program: &str, key: &str, code: ErrorCode) -> Outcome {
    let key = ShownKey(key);
    match code {
        ErrorCode::ObjectNotFound => {
            complain(format_args!("{program}: there is no object {key}\n"));
        }
        ErrorCode::ObjectAlreadyExists => {
            complain(format_args!(
                "{program}: {key} has an object already; --replace replaces it\n"
            ));
        }
        code => complain(format_args!("{program}: {key}: {}\n", meaning(code))),
    }
    Outcome::of(code)
}

/// An error code with what it means and what to do.
pub(crate) fn meaning(code: ErrorCode) -> String {
    match code.advice() {
        Some(advice) => format!("{code}: {} {}", advice.meaning, advice.remedy),
        None => code.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_outweighs_a_key_that_is_not_there() {
        let worst = |codes: &[ErrorCode]| codes.iter().map(|code| Outcome::of(*code)).max();
        for (codes, status) in [
            (&[ErrorCode::ObjectNotFound][..], 3),
            (&[ErrorCode::ObjectAlreadyExists, ErrorCode::ObjectNotFound], 4),
            (&[ErrorCode::ObjectNotFound, ErrorCode::RpcFail, ErrorCode::ObjectNotFound], 1),
        ] {
            assert_eq!(worst(codes).map(Outcome::status), Some(status), "{codes:?}");
        }
        assert_eq!(Outcome::Done.status(), 0);
    }
}
