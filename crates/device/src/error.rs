use std::io;

use thiserror::Error;

/// The driver refused a call, or reports an earlier failure.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{call} of the CUDA driver failed: {name} ({code})")]
pub struct DriverError {
    /// The driver's function.
    pub call: &'static str,
    /// The driver's `CUresult`.
    pub code: i32,
    /// The name of the code, as the driver gives it.
    pub name: String,
}

/// `CUDA_ERROR_NOT_INITIALIZED`
const NOT_INITIALIZED: i32 = 3;
/// `CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED`
const ALREADY_REGISTERED: i32 = 712;
/// `CUDA_ERROR_NOT_SUPPORTED`
const NOT_SUPPORTED: i32 = 801;
/// `CUDA_ERROR_INVALID_CONTEXT`, `_CONTEXT_IS_DESTROYED`, `_PRIMARY_CONTEXT_ACTIVE`, and errors that end a context:
/// `_ECC_UNCORRECTABLE`, `_ILLEGAL_ADDRESS`, `_LAUNCH_TIMEOUT`, `_ASSERT`, `_HARDWARE_STACK_ERROR` and those that
/// follow it.
const CONTEXT_LOST: [i32; 13] = [4, 201, 214, 700, 702, 708, 709, 710, 714, 715, 716, 717, 718];

impl DriverError {
    /// The error for a function that the driver lacks.
    pub(crate) fn unsupported(call: &'static str) -> DriverError {
        DriverError { call, code: NOT_SUPPORTED, name: "CUDA_ERROR_NOT_SUPPORTED".to_owned() }
    }

    /// Whether this process has not initialised CUDA. A forked child loses its parent's initialisation.
    pub(crate) fn is_uninitialized(&self) -> bool {
        self.code == NOT_INITIALIZED
    }

    /// Whether the pages are locked already, by another library.
    pub(crate) fn is_already_registered(&self) -> bool {
        self.code == ALREADY_REGISTERED
    }

    pub(crate) fn is_unsupported(&self) -> bool {
        self.code == NOT_SUPPORTED
    }

    /// Whether the context is unusable from now on.
    pub(crate) fn is_context_lost(&self) -> bool {
        CONTEXT_LOST.contains(&self.code)
    }
}

/// Why bytes were not copied. The copy is not in flight any more.
#[derive(Debug, Error)]
pub enum CopyError {
    /// The driver reported an error.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// The list has device memory, but this process has no driver: it was forked from the process that registered the
    /// memory.
    #[error("this process has no CUDA driver; after a fork, only the parent has it")]
    NoDriver,
    /// Host memory is not mapped, or cannot be accessed.
    #[error("{0}")]
    Host(#[from] io::Error),
    /// The caller stopped the copy.
    #[error("the copy was stopped")]
    Stopped,
}
