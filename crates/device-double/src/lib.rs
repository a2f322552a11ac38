//! Tests only: a CUDA driver without a GPU. It has the symbols that `mooncake-device` uses, and those by which tests
//! allocate memory.
//!
//! - Device memory has addresses that the processor cannot access. The double keeps its bytes elsewhere.
//! - Each stream runs late, on its own thread. A test that uses bytes before the stream is synchronized sees old ones.
//! - Tests can make calls fail, limit memory and page-locks, and lose contexts ([`control`]).
//!
//! Rust tests link it and pass [`symbol`] to the crate under test. Python tests load the library by path. Its internal
//! name is `libcuda.so.1`, so it then is the driver of the process.

pub mod api;
pub mod control;
mod memory;
mod state;
mod stream;

pub use api::symbol;
