use std::io;

use thiserror::Error;

/// The driver refused a call, or reports what went wrong before it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{call} of the CUDA driver failed: {name} ({code})")]
pub struct DriverError {
    /// The function.
    pub call: &'static str,
    /// The driver's `CUresult`.
    pub code: i32,
    /// Its name, as the driver gives it.
    pub name: String,
}

/// `CUDA_ERROR_NOT_INITIALIZED`
const NOT_INITIALIZED: i32 = 3;
/// `CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED`
const ALREADY_REGISTERED: i32 = 712;
/// `CUDA_ERROR_NOT_SUPPORTED`
const NOT_SUPPORTED: i32 = 801;
/// `CUDA_ERROR_INVALID_CONTEXT`, `_CONTEXT_IS_DESTROYED`, `_PRIMARY_CONTEXT_ACTIVE`; and what no context survives:
/// `_ECC_UNCORRECTABLE`, `_ILLEGAL_ADDRESS`, `_LAUNCH_TIMEOUT`, `_ASSERT`, `_HARDWARE_STACK_ERROR` and those behind it.
const CONTEXT_LOST: [i32; 13] = [4, 201, 214, 700, 702, 708, 709, 710, 714, 715, 716, 717, 718];

impl DriverError {
    /// For a function that the driver does not have.
    pub(crate) fn unsupported(call: &'static str) -> DriverError {
        DriverError { call, code: NOT_SUPPORTED, name: "CUDA_ERROR_NOT_SUPPORTED".to_owned() }
    }

    /// Nothing of CUDA has been set up in this process, or a fork has ended it.
    pub(crate) fn is_uninitialized(&self) -> bool {
        self.code == NOT_INITIALIZED
    }

    /// The pages are locked already, by others.
    pub(crate) fn is_already_registered(&self) -> bool {
        self.code == ALREADY_REGISTERED
    }

    pub(crate) fn is_unsupported(&self) -> bool {
        self.code == NOT_SUPPORTED
    }

    /// Whether the context cannot be used any more.
    pub(crate) fn is_context_lost(&self) -> bool {
        CONTEXT_LOST.contains(&self.code)
    }
}

/// Why bytes were not copied. Nothing of the copy is under way any more.
#[derive(Debug, Error)]
pub enum CopyError {
    /// The driver said no.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// There is memory of a device, and no driver: this process was forked from the one that registered the memory.
    #[error("this process has no CUDA driver; after a fork, only the parent has it")]
    NoDriver,
    /// Memory of the host is not there.
    #[error("{0}")]
    Host(#[from] io::Error),
    /// The copy was asked to stop.
    #[error("the copy was stopped")]
    Stopped,
}
