use std::fmt;

use mooncake_client::{EnvError, ErrorCode, OpenError};
use mooncake_dummy::DummyError;

/// Why a store could not be set up.
#[derive(Debug)]
pub enum SetupError {
    /// A required argument is missing.
    Missing(&'static str),
    /// An argument has a wrong value.
    Wrong {
        /// The argument.
        name: &'static str,
        /// What is wrong, after the name in a sentence.
        reason: String,
    },
    /// The store is set up, perhaps by another thread meanwhile.
    SetUpAlready,
    /// An environment variable has a wrong value.
    Environment(EnvError),
    /// The store could not be opened.
    Open(OpenError),
    /// The dummy could not be opened.
    Dummy(DummyError),
}

impl SetupError {
    /// The argument `name` has a wrong value.
    pub fn wrong(name: &'static str, reason: impl Into<String>) -> Self {
        Self::Wrong { name, reason: reason.into() }
    }

    /// The argument `name` is no number of a port.
    pub fn not_a_port(name: &'static str, value: &dyn fmt::Display) -> Self {
        Self::wrong(name, format!("{value} is not a port from 0 to 65535"))
    }

    /// Logs the error, and returns the number for the caller.
    pub fn report(&self, operation: &str) -> i32 {
        tracing::error!("{operation}: {self}");
        self.code().number()
    }

    fn code(&self) -> ErrorCode {
        match self {
            SetupError::Open(error) if error.code() != ErrorCode::InvalidParams => {
                ErrorCode::InternalError
            }
            SetupError::Dummy(error) if error.code() != ErrorCode::InvalidParams => {
                ErrorCode::InternalError
            }
            _ => ErrorCode::InvalidParams,
        }
    }
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SetupError::Missing(name) => write!(f, "{name} is missing"),
            SetupError::Wrong { name, reason } => write!(f, "{name} {reason}"),
            SetupError::SetUpAlready => f.write_str("the store is set up already; close it first"),
            SetupError::Environment(error) => error.fmt(f),
            SetupError::Open(error) => error.fmt(f),
            SetupError::Dummy(error) => error.fmt(f),
        }
    }
}
