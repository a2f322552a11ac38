//! The negative numbers that methods of `mooncake.engine` return, as in the C++ package.

use std::fmt::Display;

use mooncake_engine::{PeerError, RegisterError, UnregisterError};

/// Errors without a number of their own.
pub(super) const FAILED: i32 = -1;

const TOO_MANY: i32 = -2;
const NOT_REGISTERED: i32 = -3;
const BUSY: i32 = -4;
const OVERLAPS: i32 = -7;
const SOCKET: i32 = -102;
const METADATA: i32 = -200;
const NO_MEMORY: i32 = -302;

/// An error of the engine that has a number for Python.
pub(super) trait Numbered: Display {
    /// The number; never zero.
    fn number(&self) -> i32;
}

impl Numbered for RegisterError {
    fn number(&self) -> i32 {
        match self {
            RegisterError::Empty { .. } | RegisterError::Forked => FAILED,
            RegisterError::Overlaps { .. } => OVERLAPS,
            RegisterError::NotMapped { .. } | RegisterError::NoMemory { .. } => NO_MEMORY,
            RegisterError::TooMany { .. } => TOO_MANY,
        }
    }
}

impl Numbered for UnregisterError {
    fn number(&self) -> i32 {
        match self {
            UnregisterError::Unknown { .. } => NOT_REGISTERED,
            UnregisterError::Busy { .. } => BUSY,
            UnregisterError::Forked => FAILED,
        }
    }
}

impl Numbered for PeerError {
    fn number(&self) -> i32 {
        match self {
            PeerError::Name { .. } | PeerError::Unknown { .. } => METADATA,
            PeerError::Silent { .. } => SOCKET,
            PeerError::Forked => FAILED,
        }
    }
}

/// 0 for success. Otherwise logs the error and returns its number.
pub(super) fn of(function: &str, result: Result<(), impl Numbered>) -> i32 {
    match result {
        Ok(()) => 0,
        Err(error) => {
            tracing::error!("{function}: {error}");
            error.number()
        }
    }
}
