//! The Python module `mooncake._native`: the API of `mooncake.store` and `mooncake.engine`, on top of
//! `mooncake_client::Store` and `mooncake_engine::Engine`.
//!
//! It only converts arguments and results: no protocol, no retry, no policy. A method converts its arguments, gives up
//! the interpreter lock for the calls that may block, and converts the results. Failures in the cluster do not raise:
//! callers get the numbers of `mooncake_types::ErrorCode`. An argument of a wrong type raises a `TypeError` that names
//! the argument.
//!
//! Enter at `store.rs`, which holds the class that callers use. Its methods lie in modules named after what they do.
//! All unsafe code is in `buffer.rs`, `scalar.rs` and `engine/memory.rs`.

#![deny(unsafe_code)]

mod argument;
mod buffer;
mod codes;
mod copy_out;
mod drop_detached;
mod engine;
mod error_name;
mod exist_options;
mod get;
mod host_memory;
mod interruptible;
mod lifecycle;
mod put;
mod ranges;
mod register;
mod remove;
mod replica;
mod replicate_config;
mod rows;
mod scalar;
mod segment;
mod session;
mod setup;
mod setup_addresses;
mod setup_form;
mod store;
mod stream_counter;
mod task;
mod texts;
mod trace_caller;
mod upsert;
mod write;

/// The module as Python imports it.
#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use crate::buffer::{BufferHandle, BufferLeaseView};
    #[pymodule_export]
    use crate::engine::{
        ScatterTransferTicket, TransferEngine, TransferEngineHandle, TransferNotify,
    };
    #[pymodule_export]
    use crate::error_name::{error_advice, error_name};
    #[pymodule_export]
    use crate::exist_options::ExistOptions;
    #[pymodule_export]
    use crate::host_memory::{
        MooncakeHostMemAllocator, bind_to_numa_node, get_alloc_func_addr, get_free_func_addr,
    };
    #[pymodule_export]
    use crate::ranges::RangedReadSnapshot;
    #[pymodule_export]
    use crate::replica::{Descriptor, DiskDescriptor, MemoryDescriptor, ReplicaDescriptor};
    #[pymodule_export]
    use crate::replicate_config::ReplicateConfig;
    #[pymodule_export]
    use crate::store::MooncakeDistributedStore;
    #[pymodule_export]
    use crate::stream_counter::StreamCounter;
    #[pymodule_export]
    use crate::task::QueryTaskResponse;

    #[pymodule_export]
    const VERSION: &str = mooncake_client::SOFTWARE_VERSION;
    #[pymodule_export]
    const PROTOCOL_VERSION: u32 = mooncake_client::PROTOCOL_VERSION;

    #[pymodule_init]
    fn init() {
        mooncake_binding::log::start();
    }
}
