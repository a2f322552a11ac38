use thiserror::Error;

use crate::call::CallError;

/// Why no NIC of libibverbs can be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum VerbsError {
    /// The library cannot be loaded.
    #[error(
        "libibverbs cannot be loaded ({reason}); install it (Debian: libibverbs1 and ibverbs-providers), or name it in \
         MC_IBVERBS_PATH"
    )]
    NotThere {
        /// The dynamic linker's words.
        reason: String,
    },
    /// The library lacks a function.
    #[error(
        "{library} lacks the function {function}: it is not libibverbs, or older than rdma-core 33"
    )]
    Lacks {
        /// The library's name.
        library: String,
        /// The missing function.
        function: String,
    },
    /// This process uses another library already.
    #[error("this process uses {used} already, not {wanted}")]
    OtherInUse {
        /// The library in use.
        used: String,
        /// The library that was asked for.
        wanted: String,
    },
    /// A call failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The library finds no NIC.
    #[error("libibverbs finds no RDMA device on this host")]
    NoDevice,
    /// NICs were found, and none of them can be used.
    #[error("no RDMA device can be used: {}", reasons.join("; "))]
    NoneFits {
        /// Why each of them cannot.
        reasons: Vec<String>,
    },
}

/// A variable with a value that it cannot have.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{name} is {value:?}, not {wanted}")]
pub struct VariableError {
    /// The variable.
    pub name: &'static str,
    /// Its value.
    pub value: String,
    /// What it may be.
    pub wanted: &'static str,
}
