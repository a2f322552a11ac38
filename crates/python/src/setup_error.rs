use std::fmt;

use mooncake_client::{EnvError, ErrorCode, OpenError};
use mooncake_dummy::DummyError;
use pyo3::PyErr;

/// Why a store could not be set up.
#[derive(Debug)]
pub(crate) enum SetupError {
    /// A required key of the dict is missing.
    Missing(&'static str),
    /// An argument has a wrong value.
    Wrong { name: &'static str, reason: String },
    /// Another thread has set the store up meanwhile.
    SetUpAlready,
    /// An environment variable has a wrong value.
    Environment(EnvError),
    /// The store could not be opened.
    Open(OpenError),
    /// The dummy could not be opened.
    Dummy(DummyError),
    /// A signal arrived during the opening, and its handler raised this.
    Interrupted(PyErr),
}

impl SetupError {
    /// The number that Python gets.
    pub(crate) fn code(&self) -> ErrorCode {
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
            SetupError::Interrupted(raised) => raised.fmt(f),
        }
    }
}
