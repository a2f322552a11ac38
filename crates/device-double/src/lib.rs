//! Tests only: a CUDA driver without a GPU. It has the symbols that `mooncake-device` uses, and those by which tests make memory.
//!
//! - Memory of a device lies at addresses that the processor cannot touch; the double keeps the bytes elsewhere.
//! - Streams are run by threads of their own, and late: who uses bytes before the stream is done uses old ones.
//! - Tests can let calls fail, run out of memory or of page-locks, and lose contexts ([`control`]).
//!
//! Rust tests link it and give [`symbol`] to the crate under test. Python tests load the library by path; since its name within is
//! `libcuda.so.1`, it is then the driver of the process.

pub mod api;
pub mod control;
mod memory;
mod state;
mod stream;

pub use api::symbol;
