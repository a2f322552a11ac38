//! The Python module `mooncake._native`: the API of `mooncake.store` on top of `mooncake_client::Store`.
//!
//! It converts arguments and results and does nothing else: no protocol, no retry, no policy. Inputs are converted
//! first, then the interpreter lock is given up around everything that can wait, then results are converted. No
//! method raises for what goes wrong in the cluster: callers get the numbers of `mooncake_types::ErrorCode`. Only an
//! argument of a wrong type raises, a `TypeError` that names the argument.
//!
//! Enter at `store.rs` for the class that callers use; its methods lie in `lifecycle.rs`, `put.rs`, `get.rs`,
//! `remove.rs` and `register.rs`. All unsafe code is in `buffer.rs`.

#![deny(unsafe_code)]

mod argument;
mod batch;
mod buffer;
mod get;
mod lifecycle;
mod log;
mod put;
mod register;
mod remove;
mod replicate_config;
mod setup;
mod store;

/// The module as Python imports it.
#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use crate::buffer::BufferHandle;
    #[pymodule_export]
    use crate::replicate_config::ReplicateConfig;
    #[pymodule_export]
    use crate::store::MooncakeDistributedStore;

    #[pymodule_init]
    fn init() {
        crate::log::start();
    }
}
